"""The names and numbers of a statement, and whether the lines that it cites have them.

A statement in words alone names nothing: whether the lines mean the same is for the reviewer.
"""

import re
from collections.abc import Iterator
from fractions import Fraction
from http import HTTPStatus
from math import prod
from typing import NamedTuple

from copydesk.jobs.checks.names.claimed_names import FILE_NAME_PATTERN
from copydesk.jobs.checks.names.known_names import build_flexible

CODE_SPAN_PATTERN = re.compile(r"`+([^`\n]+)`+")
FLAG = r"(?<![\w-])--?[A-Za-z][\w-]*"
IDENTIFIER = r"[A-Za-z_$]\w*(?:(?:[.#-]|::|->)[A-Za-z_]\w*)*"
PROSE_NAME_PATTERN = re.compile(
    rf"(?<![\w-])--[A-Za-z][\w-]*|(?<![\w@/.-])(?:{IDENTIFIER.replace('[.#-]', '[.]')})(?![\w@/-]|\.\w)"
)
CODE_NAME_PATTERN = re.compile(rf"{FLAG}|{IDENTIFIER}")
SNAKE_PATTERN = re.compile(r"[A-Za-z0-9]_+[A-Za-z0-9]")
CAMEL_PATTERN = re.compile(r"[a-z][a-z0-9]+(?:[A-Z][a-z0-9]+)+")
DOTTED_PATTERN = re.compile(r"[a-z]\w+(?:\.[A-Za-z]\w+)+")
QUALIFIER_PATTERN = re.compile(r"\.|#|::|->")
SYNONYMS = (("null", "none", "nil"), ("boolean", "bool"), ("integer", "int"), ("string", "str"))
"""Words of the documentation for what code spells in another way."""

NO_NUMBER_PATTERN = re.compile(
    r"^\s*(?:\d+[.)]|\(\d+\))\s"
    r"|\b\d{4}-\d\d-\d\d\b|\b\d{1,2}:\d\d(?::\d\d)?\b|\[\d+\]|#\d+"
    r"|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.? \d{1,2}(?:st|nd|rd|th)?\b(?:,? \d{4}\b)?"
    r"|\b(?:\d{1,2}(?:st|nd|rd|th)?\.? )?(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.? \d{4}\b"
    r"|\b(?:by|from|in|of|since|until) (?:19|20)\d\d\b"
    r"|\b(?:chapter|example|figure|footnote|iso|issue|item|lines?|option|page|phase|pr|rfc|section|step|table)"
    r" \d+(?:[.-]\d+)*",
    re.I | re.M,
)
"""Positions in lists, references, dates and times: numbers that say nothing about the product."""
NUMBER_PATTERN = re.compile(
    r"(?<![\w.])(?<![A-Za-z][-/])"
    r"(?P<digits>\d{1,3}(?:[,_'’\u00a0\u202f]\d{3})+|\d+(?:_\d+)*)(?P<rest>(?:\.\d+)*)"
    r"(?:(?P<gap>[ -]?)(?P<unit>[A-Za-zµ]+|%))?"
)
CITED_NUMBER_PATTERN = re.compile(r"0x[0-9a-f_]{1,16}|\d+(?:[_,']\d{3})*(?:\.\d+)?(?:e[+-]?\d{1,2})?", re.I)
CALCULATION_PATTERN = re.compile(r"\d[\d_.]{0,20}(?:\s{0,3}(?:\*\*?|<<)\s{0,3}\d[\d_.]{0,20}){1,6}")
OPERATOR_PATTERN = re.compile(r"\s*(\*\*|\*|<<)\s*")
MAX_DIGITS = 30
MAX_EXPONENT = 64
MAX_VALUE = 10**MAX_DIGITS
"""Statements have no larger numbers, and powers of powers would take minutes."""
NUMBER_WORDS = {
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "eleven": 11,
    "twelve": 12,
    "once": 1,
    "twice": 2,
}
NUMBER_WORD_PATTERN = re.compile(rf"(?<![A-Za-z])(?:{'|'.join(NUMBER_WORDS)})(?![A-Za-z])", re.I)
SECOND = 10**9
DURATIONS = {
    **dict.fromkeys(("ns", "nanosecond"), 1),
    **dict.fromkeys(("us", "µs", "microsecond"), 10**3),
    **dict.fromkeys(("ms", "msec", "millisecond"), 10**6),
    **dict.fromkeys(("s", "sec", "second"), SECOND),
    **dict.fromkeys(("m", "min", "minute"), 60 * SECOND),
    **dict.fromkeys(("h", "hr", "hour"), 3600 * SECOND),
    **dict.fromkeys(("d", "day"), 86_400 * SECOND),
    **dict.fromkeys(("w", "week"), 7 * 86_400 * SECOND),
    "month": 30 * 86_400 * SECOND,
    "year": 365 * 86_400 * SECOND,
}
"""Nanoseconds of each unit of time."""
PREFIXES = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5, "kilo": 1, "mega": 2, "giga": 3, "tera": 4, "peta": 5}
"""The power of 1000 or 1024 for which a prefix of bytes stands."""
BYTES_PATTERN = re.compile(r"(?P<prefix>kilo|mega|giga|tera|peta|[kmgtp]?)(?:i?b|i?bytes?|ibit|bits?)", re.I)
MULTIPLES = {"thousand": 10**3, "k": 10**3, "million": 10**6, "billion": 10**9}


class CitedText(NamedTuple):
    lines: str
    """The cited lines."""
    surroundings: str
    """What says where the lines are: the name of the repository, the path, and the rest of the file."""
    place: str
    """The name of the repository and the path."""


def find_unnamed(statement: str, cited: CitedText) -> list[str]:
    """Returns the names and numbers of a statement that the cited lines do not have, in its order, each once."""
    return list(dict.fromkeys([*_find_unnamed_names(statement, cited), *_find_absent_numbers(statement, cited.lines)]))


def _find_unnamed_names(statement: str, cited: CitedText) -> Iterator[str]:
    for span in CODE_SPAN_PATTERN.findall(statement):
        yield from _find_unnamed_in_code(span.strip(), cited)
    for match in PROSE_NAME_PATTERN.finditer(CODE_SPAN_PATTERN.sub(" ", statement)):
        name = match[0].strip("_")
        if _is_unmistakable(name) and not _has_name(name, cited):
            yield name


def _find_unnamed_in_code(code: str, cited: CitedText) -> Iterator[str]:
    """Yields the names of inline code that the lines do not have.

    Of a whole command or expression, its flags and settings must be there, and at least one of its words.
    """
    if _occurs(code, cited.lines):
        return
    words = code.split()
    if len(words) == 1 and "/" in code:
        segments = [part for part in code.split("/") if re.fullmatch(r"[\w.-]*[A-Za-z][\w.-]*", part)]
        words, names = segments[-1:], segments[-1:]
    else:
        names = [name for word in words if "/" not in word for name in CODE_NAME_PATTERN.findall(word)]
    if len(words) == 1 and len(names) == 1:
        if not _has_name(names[0], cited):
            yield names[0]
        return
    unnamed = [name for name in names if not _has_name(name, cited)]
    unmistakable = [name for name in unnamed if _is_unmistakable(name)]
    yield from unmistakable or ([code] if names and len(unnamed) == len(names) else [])


def _is_unmistakable(name: str) -> bool:
    """Returns whether a word is a name also outside of code: a flag, a setting or a variable."""
    if name.startswith("-") or SNAKE_PATTERN.search(name) or CAMEL_PATTERN.fullmatch(name):
        return True
    return DOTTED_PATTERN.fullmatch(name) is not None and FILE_NAME_PATTERN.search(name) is None


def _has_name(name: str, cited: CitedText) -> bool:
    """Returns whether the lines have a name in one of its spellings, or its place has it, as for a file or a command.

    What qualifies the name, such as the section of a setting or the class of a method, may be elsewhere in the file.
    """
    bare = name.strip("_$")
    if _is_spelled(bare, cited.lines) or _is_spelled(bare, cited.place):
        return True
    if name.startswith("-"):
        flag = name.lstrip("-")
        return flag.startswith("no-") and _is_spelled(flag.removeprefix("no-"), cited.lines)
    if FILE_NAME_PATTERN.search(name):
        return _is_spelled(bare, cited.surroundings)
    *qualifiers, last = QUALIFIER_PATTERN.split(bare)
    if qualifiers:
        return _has_name(last, cited) and all(_is_spelled(each, cited.surroundings) for each in qualifiers)
    prefix, _, rest = bare.partition("_")
    if bare.isupper() and rest:  # the program may add the prefix of its environment variables
        return _is_spelled(rest, cited.lines) and bool(prefix)
    groups = (group for group in SYNONYMS if bare.casefold() in group)
    return any(_is_spelled(word, cited.lines) for group in groups for word in group)


def _is_spelled(name: str, text: str) -> bool:
    if name.startswith("-") and not name.startswith("--"):  # a flag of one letter
        return re.search(rf"(?<![\w-]){re.escape(name)}(?![A-Za-z0-9])", text) is not None
    if not re.search(r"[A-Za-z0-9]", name):
        return _occurs(name, text)
    if not name.isascii():
        return name.casefold() in text.casefold()
    return build_flexible(name).pattern.search(text.encode(errors="replace")) is not None


def _occurs(code: str, text: str) -> bool:
    """Returns whether a text has code as it is written, apart from white space, and not as a part of a longer word."""
    pattern = r"\s+".join(re.escape(word) for word in code.split())
    return re.search(rf"(?<![\w-]){pattern}(?![\w-])", text) is not None


def _find_absent_numbers(statement: str, lines: str) -> Iterator[str]:
    values: frozenset[Fraction] | None = None
    for match in NUMBER_PATTERN.finditer(NO_NUMBER_PATTERN.sub(" ", statement.replace("`", " "))):
        digits, unit = match["digits"] + match["rest"], match["unit"] or ""
        factors = _find_factors(unit)
        if unit and not match["gap"] and not factors:
            continue  # a word that begins with a digit, such as 3rd or 4xx
        plain = re.sub(r"[,_'’\u00a0\u202f]", "", digits)
        if len(plain) > MAX_DIGITS or plain.count(".") > 1:
            if plain not in lines:
                yield digits
            continue
        values = _list_values(lines) if values is None else values
        number = Fraction(plain)
        is_version = "." in plain and plain.endswith("0") and number.denominator > 1 and not factors  # 3.10 is not 3.1
        is_known = not is_version and any(number * factor in values for factor in (Fraction(1), *factors))
        if not is_known and not _is_spelled_out(plain, lines):
            yield digits


def _find_factors(unit: str) -> list[Fraction]:
    """Returns with what a number of this unit may be multiplied in code, which often counts in smaller units."""
    name = unit.casefold()
    singular = name.removesuffix("s") if len(name) > 2 else name
    if nanoseconds := DURATIONS.get(singular) or DURATIONS.get(name):
        return [Fraction(nanoseconds, each) for each in set(DURATIONS.values()) if each <= nanoseconds]
    if name == "%" or singular == "percent":
        return [Fraction(1, 100)]
    if match := BYTES_PATTERN.fullmatch(name):
        power = PREFIXES[match["prefix"].casefold()]
        return [Fraction(base**each) for base in (1000, 1024) for each in range(power + 1)]
    return [Fraction(MULTIPLES[name])] if name in MULTIPLES else []


def _is_spelled_out(number: str, lines: str) -> bool:
    """Returns whether the lines have a version as in `py312` and `TLSv1_3`, or an HTTP status by its name."""
    if "." in number:
        pattern = rf"(?<!\d){number.replace('.', '[._-]?')}(?!\d)"
        return re.search(pattern, lines) is not None
    is_status = len(number) == 3 and int(number) in HTTPStatus.__members__.values()
    return is_status and _is_spelled(HTTPStatus(int(number)).name, lines)


def _list_values(lines: str) -> frozenset[Fraction]:
    """Returns the numbers of the lines, also those in names, in words and of calculations such as `24 * 60 * 60`."""
    values = {Fraction(NUMBER_WORDS[word.casefold()]) for word in NUMBER_WORD_PATTERN.findall(lines)}
    for token in CITED_NUMBER_PATTERN.findall(lines):
        if token[:2].casefold() == "0x":
            values.add(Fraction(int(token, 16)))
            continue
        plain = re.sub(r"[_']", "", token)
        parts = (plain.replace(",", ""), *plain.split(","))  # a number with separators, or a list of numbers
        values.update(Fraction(part) for part in parts if len(part) <= MAX_DIGITS)
    for calculation in CALCULATION_PATTERN.findall(lines):
        if (value := _calculate(calculation)) is not None:
            values.add(value)
    return frozenset(values)


def _calculate(text: str) -> Fraction | None:
    """Returns the value of factors, powers and shifts of numbers; None if it is too large or something else."""
    factors: list[Fraction] = []
    operator = "*"
    for index, part in enumerate(OPERATOR_PATTERN.split(text)):
        if index % 2:
            operator = part
            continue
        try:
            number = Fraction(part.replace("_", ""))
        except ValueError:
            return None
        if operator == "*":
            factors.append(number)
        elif number > MAX_EXPONENT or number.denominator > 1:
            return None
        elif operator == "**":
            factors.append(factors.pop() ** number.numerator)
        else:
            factors = [prod(factors) * Fraction(2) ** number.numerator]
        if max(factors[-1].as_integer_ratio()) > MAX_VALUE:
            return None
    return Fraction(prod(factors))
