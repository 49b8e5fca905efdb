"""Selects the known visits whose links new visits can change: the nearest ones before and after them.

A known visitor may have many visits, most of them to other sections or long ago. Sorting and linking them all would
cost more than finding them.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from copydesk.analytics.stores.duckdb.folding.scope_table import ScopeTable
from copydesk.analytics.stores.duckdb.folding.visit_rows import Keys, Scopes, VisitRows

MAX_UNSELECTED_VISITS = 2_000
"""So many known visits, or fewer, are all linked, which takes less time than selecting some of them."""
SLOTS_PER_VISIT = 8
NO_FIRST_DAY, NO_LAST_DAY = 0xFFFF, 0
DAYS_TYPE = np.dtype([("first", np.uint16), ("last", np.uint16)])
CHAIN_FACTOR, SLOT_FACTOR = np.int64(0x1E3779B97F4A7C15), np.int64(0x56E8FEB86659FD93)
"""Large odd numbers, which spread chains over the slots."""
Slots = NDArray[np.int64]


class NearestVisits:
    """Selects known visits for a set of new ones.

    A chain is all visits of a visitor to a scope, or to all scopes that count for the same other one, such as the
    agents of a site. Chains are found by a hash of their visitor and scope: if two have the same hash, more known
    visits are selected.
    """

    def __init__(self, scopes: ScopeTable, new: VisitRows) -> None:
        self._scopes = scopes
        self._new = new
        self._slot_bits = (SLOTS_PER_VISIT * len(new)).bit_length()

    def select(self, known: VisitRows) -> VisitRows:
        """Returns known visits without those that make no difference to the links of the new ones.

        This leaves out chains without a new visit. In other chains, it leaves out each visit before all new ones if
        the next one has the same scope and class bits and is before them too, and each visit after all new ones if
        the previous one has and is after them too. It leaves out most if the visits are sorted by key, scope and day.
        """
        if len(known) <= MAX_UNSELECTED_VISITS or not len(self._new):
            return known
        is_like_previous = (known.key[1:] == known.key[:-1]) & (known.scope[1:] == known.scope[:-1])
        starts = np.append(0, np.flatnonzero(~is_like_previous) + 1)
        days = self._days_of_chains[self._find_slots(known.key[starts], known.scope[starts])]
        counts = np.diff(starts, append=len(known))
        is_before = known.day < np.repeat(days["first"], counts)
        is_after = known.day > np.repeat(days["last"], counts)
        is_left_out = is_before & is_after  # both if there is no new visit
        is_like_previous &= (known.bits[1:] == known.bits[:-1]) & (known.day[1:] >= known.day[:-1])
        is_left_out[:-1] |= is_like_previous & is_before[1:]
        is_left_out[1:] |= is_like_previous & is_after[:-1]
        return known.take(np.flatnonzero(~is_left_out))

    @cached_property
    def _days_of_chains(self) -> NDArray[np.void]:
        """The first and the last day of the new visits of each chain, by slot: neighbors in memory, which is faster."""
        days = np.empty(1 << self._slot_bits, DAYS_TYPE)
        days["first"], days["last"] = NO_FIRST_DAY, NO_LAST_DAY
        slots = self._find_slots(self._new.key, self._new.scope)
        np.minimum.at(days["first"], slots, self._new.day)
        np.maximum.at(days["last"], slots, self._new.day)
        return days

    @cached_property
    def _chain_hashes(self) -> NDArray[np.int64]:
        """A number for each scope, which is the same for all scopes of a chain."""
        parent = self._scopes.parent
        return np.where(parent > 0, parent, np.arange(len(parent))) * CHAIN_FACTOR

    def _find_slots(self, key: Keys, scope: Scopes) -> Slots:
        slots: Slots = (key + self._chain_hashes[scope]) * SLOT_FACTOR
        return (slots.view(np.uint64) >> np.uint64(64 - self._slot_bits)).view(np.int64)
