"""Fills each page from its end."""

# --- variation
PAGE = 4
# --- end


def run(event_X3, table_RX, references_P, write, copy):
    length_R = [0] * len(table_RX)
    free = list(range(len(references_P)))

    def take():
        page = free.pop()
        references_P[page] = 1
        return page

    for kind, row, value in event_X3.tolist():
        if kind == 0:
            nth, slot = divmod(length_R[row], PAGE)
            page = table_RX[row, nth]
            if slot == 0:
                table_RX[row, nth] = take()
            elif references_P[page] > 1:
                references_P[page] -= 1
                table_RX[row, nth] = take()
                copy(page, table_RX[row, nth])
            write(table_RX[row, nth], PAGE - 1 - slot, value)
            length_R[row] += 1
        elif kind == 1:
            table_RX[row], length_R[row] = table_RX[value], length_R[value]
            for page in table_RX[row]:
                if page >= 0:
                    references_P[page] += 1
        else:
            for page in table_RX[row]:
                if page >= 0:
                    references_P[page] -= 1
                    if references_P[page] == 0:
                        free.append(page)
            table_RX[row], length_R[row] = -1, 0
