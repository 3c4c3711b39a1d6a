"""Lists of pages, counted again whenever a page is wanted; the arrays are filled at the end."""

# --- variation
PAGE = 4
# --- end


def run(event_X3, table_RX, references_P, write, copy):
    texts = [([], 0) for _ in table_RX]  # pages, length

    def count(page):
        return sum(page in pages for pages, _ in texts)

    def unused():
        return next(page for page in range(len(references_P)) if count(page) == 0)

    for kind, row, value in event_X3:
        pages, length = texts[row]
        if kind == 1:
            texts[row] = list(texts[value][0]), texts[value][1]
        elif kind == 2:
            texts[row] = [], 0
        else:
            if length == len(pages) * PAGE:
                pages.append(unused())
            elif count(pages[-1]) > 1:
                old, new = pages[-1], unused()
                copy(source=old, target=new)
                pages[-1] = new
            write(pages[-1], length % PAGE, value)
            texts[row] = pages, length + 1
    for row, (pages, _) in enumerate(texts):
        table_RX[row, : len(pages)] = pages
    references_P[:] = [count(page) for page in range(len(references_P))]
