"""The limit of the names that a project counts by themselves."""

from copydesk.analytics.stores.names.name_limit import NameLimit


def admit_all(limit: NameLimit, names: str, day: int = 0, max_names: int = 100, max_new_per_day: int = 100) -> str:
    """Returns those of the names, of one letter each, that are admitted. The store knows the name k."""
    return "".join(name for name in names if limit.admit("docs", day, name, lambda _: "k", max_names, max_new_per_day))


def test_new_names_per_day_are_limited_and_known_ones_are_not() -> None:
    limit = NameLimit()
    assert admit_all(limit, "abcdkab", max_new_per_day=2) == "abkab"
    assert admit_all(limit, "cdek", day=1, max_new_per_day=2) == "cdk"


def test_all_names_are_limited() -> None:
    assert admit_all(NameLimit(), "abcak", max_names=3) == "abak"
