"""Which of several identical lines a line is, so that each has an id of its own and the same one every time."""

LINES_PER_GENERATION = 1 << 16


class LineIds:
    """Counts identical lines that lie near each other, in one file.

    Lines carry the time, so that identical ones follow each other within moments. Remembered are, in two generations,
    at least the last 65,536 different views; one that is repeated after more than that would count as known.
    """

    def __init__(self) -> None:
        self._recent: dict[int, int] = {}
        self._older: dict[int, int] = {}

    def next_id(self, line: str) -> str:
        """The hash of a string is Python's own and differs between runs; it only finds the line again in this one."""
        line_hash = hash(line)
        ordinal = self._recent.get(line_hash)
        if ordinal is None:
            ordinal = self._older.get(line_hash, 0)
            if len(self._recent) == LINES_PER_GENERATION:
                self._recent, self._older = {}, self._recent
        self._recent[line_hash] = ordinal + 1
        return f"line {ordinal} {line}"
