"""Ids of log lines: the line with its ordinal among identical lines. A second import gives the same ids."""

LINES_PER_GENERATION = 1 << 16


class LineIds:
    """Counts identical lines that are close to each other in one file.

    Lines contain the time, so identical lines are close together. Two generations hold at least the last
    LINES_PER_GENERATION different lines. A line that repeats after more than that gets the same id again, and so counts
    as a duplicate.
    """

    def __init__(self) -> None:
        self._recent: dict[int, int] = {}
        self._older: dict[int, int] = {}

    def next_id(self, line: str) -> str:
        """Returns the id of the next line.

        Python's string hash differs between runs, so it is only a key in this one.
        """
        line_hash = hash(line)
        ordinal = self._recent.get(line_hash)
        if ordinal is None:
            ordinal = self._older.get(line_hash, 0)
            if len(self._recent) == LINES_PER_GENERATION:
                self._recent, self._older = {}, self._recent
        self._recent[line_hash] = ordinal + 1
        return f"line {ordinal} {line}"
