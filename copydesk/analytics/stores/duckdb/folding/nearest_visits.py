"""Selects the known visits whose links new visits can change: the nearest ones before and after them.

A known visitor may have many visits, most of them to other sections or long ago. Sorting and linking them all would
cost more than finding them.
"""

import numpy as np
from numpy.typing import NDArray

from copydesk.analytics.stores.duckdb.folding.scope_table import ScopeTable
from copydesk.analytics.stores.duckdb.folding.visit_rows import Positions, VisitRows

MIN_KNOWN_VISITS = 2_000
"""Fewer known visits are all linked, which takes less time than selecting some of them."""
SLOTS_PER_VISIT = 8
NO_FIRST_DAY, NO_LAST_DAY = 0xFFFF, 0
SCOPE_FACTOR, BITS_FACTOR, SLOT_FACTOR = (
    np.int64(0x1E3779B97F4A7C15), np.int64(0x42B2AE3D27D4EB4F), np.int64(0x56E8FEB86659FD93)
)  # fmt: skip
"""Large odd numbers, which spread chains over the slots."""
Slots = NDArray[np.int64]


def select_nearest(scopes: ScopeTable, known: VisitRows, new: VisitRows) -> VisitRows:
    """Returns the known visits without those that make no difference to the links of the new ones.

    A chain is all visits of a visitor to a scope, or to all scopes that count for the same other one, such as the
    agents of a site. This leaves out chains without a new visit. In other chains, it leaves out each visit before all
    new ones if a later one of these has the same scope and class bits, and each visit after all new ones if an earlier
    one has. Chains are found by a hash of their visitor and scope. If two have the same hash, more visits stay.
    """
    if len(known) < MIN_KNOWN_VISITS:
        return known
    slot_bits = (SLOTS_PER_VISIT * len(new)).bit_length()
    chain: NDArray[np.int64] = np.where(scopes.parent > 0, scopes.parent, np.arange(len(scopes.parent)))
    new_slots = _find_slots(new.key + chain[new.scope] * SCOPE_FACTOR, slot_bits)
    first_days = np.full(1 << slot_bits, NO_FIRST_DAY, np.uint16)
    last_days = np.full(1 << slot_bits, NO_LAST_DAY, np.uint16)
    np.minimum.at(first_days, new_slots, new.day)
    np.maximum.at(last_days, new_slots, new.day)
    known_slots = _find_slots(known.key + chain[known.scope] * SCOPE_FACTOR, slot_bits)
    is_before = known.day < first_days[known_slots]
    is_after = known.day > last_days[known_slots]  # both if there is no new visit
    is_nearest = ~(is_before | is_after)
    for is_outside, sign in ((is_before & ~is_after, 1), (is_after & ~is_before, -1)):
        rows = np.flatnonzero(is_outside)
        is_nearest[rows] = ~_is_hidden(known, rows, sign, slot_bits)
    return known.take(np.flatnonzero(is_nearest))


def _is_hidden(visits: VisitRows, rows: Positions, sign: int, slot_bits: int) -> NDArray[np.bool_]:
    """Returns a mask of those of the visits at these positions that another one hides: it has the same visitor, scope
    and class bits, and a later day, or an earlier one if the sign is -1. Leaves some out."""
    chosen = visits.take(rows)
    slots = _find_slots(chosen.key + chosen.scope * SCOPE_FACTOR + chosen.bits * BITS_FACTOR, slot_bits)
    order = (chosen.day.astype(np.int64) * sign << 32) + np.arange(len(chosen))
    best = np.full(1 << slot_bits, np.iinfo(np.int64).min)
    np.maximum.at(best, slots, order)
    winner = best[slots] & 0xFFFFFFFF
    is_hidden: NDArray[np.bool_] = winner != np.arange(len(chosen))
    for column in (chosen.key, chosen.scope, chosen.bits):
        is_hidden &= column[winner] == column
    return is_hidden


def _find_slots(numbers: NDArray[np.int64], slot_bits: int) -> Slots:
    slots: Slots = ((numbers * SLOT_FACTOR).view(np.uint64) >> np.uint64(64 - slot_bits)).view(np.int64)
    return slots
