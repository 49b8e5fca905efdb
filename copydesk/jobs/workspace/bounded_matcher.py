"""Compares two sequences like difflib, within a bounded number of steps."""

from collections import Counter
from collections.abc import Sequence
from difflib import Match, SequenceMatcher
from itertools import accumulate

MAX_STEPS = 5_000_000
"""Maximum number of pairs of equal items to compare."""


class BoundedMatcher(SequenceMatcher[str]):
    """A SequenceMatcher with bounded work: on hostile texts SequenceMatcher takes time cubic in their length.

    Gives the same result within the bound. Items that are not compared when the steps run out count as changed."""

    def __init__(self, old: Sequence[str], new: Sequence[str], max_steps: int = MAX_STEPS) -> None:
        super().__init__(None, old, new, autojunk=False)
        self.steps_left = max_steps
        self._blocks = self._find_blocks(old, new)

    def get_matching_blocks(self) -> list[Match]:
        return self._blocks

    def _find_blocks(self, old: Sequence[str], new: Sequence[str]) -> list[Match]:
        new_counts = Counter(new)
        steps = [0, *accumulate(1 + new_counts[item] for item in old)]
        blocks: list[Match] = []
        todo = [(0, len(old), 0, len(new))]
        while todo:
            old_start, old_end, new_start, new_end = todo.pop()
            if old_start == old_end or new_start == new_end:
                continue
            if steps[old_end] - steps[old_start] > self.steps_left:
                self.steps_left = 0
                break
            self.steps_left -= steps[old_end] - steps[old_start]
            longest = self.find_longest_match(old_start, old_end, new_start, new_end)
            if longest.size:
                blocks.append(longest)
                todo.append((old_start, longest.a, new_start, longest.b))
                todo.append((longest.a + longest.size, old_end, longest.b + longest.size, new_end))
        return [*_join_adjacent(sorted(blocks)), Match(len(old), len(new), 0)]


def _join_adjacent(blocks: list[Match]) -> list[Match]:
    """Joins blocks that are adjacent in both sequences."""
    joined: list[Match] = []
    for block in blocks:
        last = joined[-1] if joined else None
        if last and (last.a + last.size, last.b + last.size) == (block.a, block.b):
            joined[-1] = Match(last.a, last.b, last.size + block.size)
        else:
            joined.append(block)
    return joined
