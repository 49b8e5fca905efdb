"""Finds the pages that a change has renamed, by their content, without reading them again."""

from collections import Counter

from copydesk.jobs.pages.page_types import extension
from copydesk.jobs.pages.parsing.page_facts import PageFacts
from copydesk.jobs.pages.site.repository_index import RepositoryIndex

MAX_COMPARED_PAIRS = 20_000
MIN_SIMILARITY = 0.5


def find_renames(before: RepositoryIndex, after: RepositoryIndex) -> dict[str, str]:
    """Maps the old path of each renamed file to its new one.

    A file is renamed if a removed and an added file have the same content, or pages with mostly the same headings and
    references.
    """
    removed = sorted(before.files.keys() - after.files.keys())
    added = sorted(after.files.keys() - before.files.keys())
    if not removed or not added:
        return {}
    renames: dict[str, str] = {}
    added_by_id = {after.files[path]: path for path in reversed(added)}
    for path in removed:
        new_path = added_by_id.pop(before.files[path], None)
        if new_path is not None:
            renames[path] = new_path
    rest = [path for path in removed if path not in renames and path in before.pages]
    targets = set(renames.values())
    candidates = [path for path in added if path not in targets and path in after.pages]
    if len(rest) * len(candidates) > MAX_COMPARED_PAIRS:
        return renames
    pairs = sorted(
        ((_measure_similarity(before.pages[old], after.pages[new]), old, new) for old in rest for new in candidates),
        key=lambda pair: (-pair[0], pair[1], pair[2]),
    )
    for similarity, old, new in pairs:
        is_free = old not in renames and new not in targets and extension(old)[:3] == extension(new)[:3]
        if similarity >= MIN_SIMILARITY and is_free:
            renames[old] = new
            targets.add(new)
    return renames


def _measure_similarity(old: PageFacts, new: PageFacts) -> float:
    old_features = _count_features(old)
    new_features = _count_features(new)
    total = old_features.total() + new_features.total()
    return 2 * (old_features & new_features).total() / total if total else 0.0


def _count_features(facts: PageFacts) -> Counter[str]:
    names = (target.partition("#")[0].rstrip("/").rpartition("/")[2] for _, _, target in facts.references)
    titles = (value for name, value in facts.fields.items() if name == "title" and isinstance(value, str))
    return Counter([*facts.headings, *facts.labels, *names, *titles])
