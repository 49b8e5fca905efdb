"""A name has 1 to 200 printable characters."""

import pytest

from copydesk.core.errors import InvalidRequest
from copydesk.core.text.display_names import validate_display_name


@pytest.mark.parametrize(("text", "name"), [("a", "a"), ("  Ada Lovelace\n", "Ada Lovelace"), ("ü" * 200, "ü" * 200)])
def test_valid_name_is_returned_without_the_spaces_around_it(text: str, name: str) -> None:
    assert validate_display_name(text) == name


@pytest.mark.parametrize("text", ["", "   ", "a" * 201, "a\nb", "a\0b", "a\u202eb", "\ud800"])
def test_invalid_name_is_refused_by_its_label(text: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        validate_display_name(text, "A project name")
    assert error.value.message == "A project name must have 1 to 200 printable characters."
