"""Which of several identical lines a line is, so that each has an id of its own and the same one every time."""

REMEMBERED = 1 << 16


class Ordinals:
    """Counts identical lines that lie near each other, in one file.

    Lines carry the time, so that identical ones follow each other within moments. Remembered are, in two generations,
    at least the last 65,536 different views; one that is repeated after more than that would count as known.
    """

    def __init__(self) -> None:
        self._young: dict[int, int] = {}
        self._old: dict[int, int] = {}

    def id(self, line: str) -> str:
        """The hash of a string is Python's own and differs between runs; it only finds the line again in this one."""
        mark = hash(line)
        number = self._young.get(mark)
        if number is None:
            number = self._old.get(mark, 0)
            if len(self._young) == REMEMBERED:
                self._young, self._old = {}, self._young
        self._young[mark] = number + 1
        return f"line {number} {line}"
