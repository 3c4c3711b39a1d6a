"""Exercise 33: which guesses of a draft are accepted, and what is drawn in place of the first that is not."""

from __future__ import annotations

import numpy as np

from ..exercise import draw_telling_input, repeat_first_row
from ..numpy_task import NumPyTask

PARTS = 256  # probabilities are multiples of 1 / PARTS, so that their sums and differences are exact in float64
LOTS = 4096  # random numbers lie in the middle of this many equal parts
NOTHING = -1


class Task(NumPyTask):
    function = "accepted"
    returns = ("token_BX",)
    known = {
        "all-of-p": "the other token is drawn from what p has more than q: drawn from all of p, tokens that the draft"
                    " guesses too often come too often",
        "not-normalised": "what is left of p weighs less than 1: a random number of all of it reaches beyond its end",
        "absolute": "where q is above p, nothing is left: such tokens were guessed often enough",
        "ratio-upside-down": "a guess stays with probability p / q: where the draft is surer than the model, it must"
                             " sometimes go",
        "by-p-alone": "a guess comes with probability q, so it stays with probability p / q, not p",
        "no-chance": "a guess whose p is below its q stays sometimes: with probability p / q",
        "goes-on": "guesses behind a wrong one were made behind another text",
        "last-token-dropped": "the model has read the last guess, too: where all guesses stay, its scores behind them"
                              " give one token more",
        "last-token-of-the-row-before": "the token behind the last guess is drawn from the last row of p, which none of"
                                        " the guesses was compared with",
        "other-order": "ORDER says from which end of the vocabulary shares are added up",
    }  # fmt: skip

    def variation(self, rng):
        order = str(rng.choice(["up", "down"]))
        return {"order": order, "from_where": "token 0 upwards" if order == "up" else "the last token downwards"}

    def cases(self, v, rng):
        def draw_inputs(texts, guesses, vocabulary, alike):
            p_BXV, q_BXV = (np.stack([[random_shares(vocabulary, rng) for _ in range(X)] for _ in range(texts)])
                            for X in (guesses + 1, guesses))  # fmt: skip
            for b, x in np.argwhere(rng.random((texts, guesses)) < alike):  # there the draft is nearly the model
                q_BXV[b, x] = p_BXV[b, x]
                likeliest = q_BXV[b, x].argmax()
                q_BXV[b, x, [likeliest, (likeliest + 1) % vocabulary]] += np.array([-1, 1]) / PARTS
            guess_BX = np.array([[rng.choice(vocabulary, p=q_V) for q_V in q_XV] for q_XV in q_BXV])
            u_BX, v_BX = ((2 * rng.integers(0, LOTS, (texts, X)) + 1) / (2 * LOTS) for X in (guesses, guesses + 1))
            return {"guess_BX": guess_BX, "p_BXV": p_BXV, "q_BXV": q_BXV, "u_BX": u_BX, "v_BX": v_BX}

        V, X = int(rng.integers(5, 9)), int(rng.integers(2, 5))
        cases = [draw_inputs(1, 1, 3, 0.0), draw_inputs(1, 2, 4, 1.0), draw_inputs(3, X, V, 0.5)]
        return [*cases, *(draw_telling_input(self, v, lambda: draw_inputs(30, X + 1, V, 0.6)) for _ in range(2))]

    def expected_outputs(self, v, inputs, mistake=None, ran=None):
        texts = zip(*(inputs[name].tolist() for name in ("guess_BX", "p_BXV", "q_BXV", "u_BX", "v_BX")), strict=True)
        return np.array([self._accept_drafts_of_text(v, *text, mistake) for text in texts])

    def _accept_drafts_of_text(self, v, guess_X, p_XV, q_XV, u_X, v_X, mistake):
        """The tokens of one text; with a mistake, what that gives."""
        order = v.order if mistake != "other-order" else {"up": "down", "down": "up"}[v.order]
        token_X = [NOTHING] * len(p_XV)
        for x, guess in enumerate(guess_X):
            p, q, u = p_XV[x][guess], q_XV[x][guess], u_X[x]
            stays = {"ratio-upside-down": u * p < q, "by-p-alone": u < p, "no-chance": p >= q}.get(mistake, u * q < p)
            token_X[x] = guess
            if not stays:
                left_V = [max(0.0, p - q) for p, q in zip(p_XV[x], q_XV[x], strict=True)]
                if mistake == "all-of-p":
                    left_V = p_XV[x]
                if mistake == "absolute":
                    left_V = [abs(p - q) for p, q in zip(p_XV[x], q_XV[x], strict=True)]
                token_X[x] = draw_token(left_V, v_X[x], order, mistake == "not-normalised")
                if mistake != "goes-on":
                    return token_X
        if mistake != "last-token-dropped":
            row = -2 if mistake == "last-token-of-the-row-before" else -1
            token_X[-1] = draw_token(p_XV[row], v_X[-1], order)
        return token_X

    def alter_inputs(self, v, inputs):
        return {"row-0-for-all": repeat_first_row(inputs, *inputs)}

    def describe_difference(self, v, inputs, got, want):
        b, x = (int(i) for i in np.argwhere(got[0] != want[0])[0])
        message = f"{self.call(inputs)}: token_BX[{b}, {x}] is {got[0][b, x]}; right is {want[0][b, x]}. "
        if want[0][b, x] == NOTHING:
            return message + "A guess before it has gone, and with it all that was guessed behind it."
        if x == inputs["guess_BX"].shape[1]:
            return message + "All guesses stay, so that one more token is drawn, from the last row of p."
        guess = inputs["guess_BX"][b, x]
        p, q, u = inputs["p_BXV"][b, x, guess], inputs["q_BXV"][b, x, guess], inputs["u_BX"][b, x]
        says = "stays" if u * q < p else f"goes: another token is drawn, by v = {inputs['v_BX'][b, x]:.6g}"
        return message + f"The guess {guess} has p = {p:.6g}, q = {q:.6g} and u = {u:.6g}: it {says}."

    def praise(self, v, tried):
        stayed = sum(int((self.expected_outputs(v, t.inputs)[:, :-1] == t.inputs["guess_BX"]).sum()) for t in tried)
        return f"{stayed} of {sum(t.inputs['guess_BX'].size for t in tried)} guesses stayed."


def random_shares(vocabulary, rng):
    """Probabilities above 0 that are multiples of 1 / PARTS."""
    weights = 1 + rng.multinomial(PARTS - vocabulary, rng.dirichlet(np.full(vocabulary, 0.7)))
    return weights / PARTS


def draw_token(share_V, random, order, as_it_is=False):
    """The token whose part of the shares, added up from one end, the random number falls into."""
    tokens = range(len(share_V)) if order == "up" else range(len(share_V) - 1, -1, -1)
    reached, total = 0.0, 1.0 if as_it_is else sum(share_V)
    for token in tokens:
        reached += share_V[token]
        if reached > random * total:
            return token
    return token  # beyond their end
