"""Reads one JSX tag or one expression in braces, each character once."""

import html
import re
from collections.abc import Callable
from dataclasses import dataclass, field

WORD = re.compile(r"[A-Za-z_$][\w$]*")
NAME = re.compile(r"[A-Za-z_$][\w$.:-]*")
QUOTED = {'"': re.compile(r"[^\"\\\n]*(?:\\.[^\"\\\n]*)*", re.S), "'": re.compile(r"[^'\\\n]*(?:\\.[^'\\\n]*)*", re.S)}
SAFE_METHODS = {
    "join", "slice", "concat", "includes", "trim", "toUpperCase", "toLowerCase", "toLocaleString", "toFixed",
    "padStart", "padEnd", "keys", "values", "entries", "reverse", "at",
}  # fmt: skip
CALLBACK_METHODS = {"map", "filter", "sort", "flatMap"}
WORDS_THAT_RUN = {
    "new", "import", "await", "delete", "yield", "class", "function", "async", "with", "throw", "while", "for", "do",
    "constructor", "__proto__", "prototype", "eval", "Function", "window", "document", "globalThis", "self", "top",
    "parent", "navigator",
}  # fmt: skip
ARROW = re.compile(r"\(\s{0,20}(?:[\w$]{1,50}|\([\w$\s,{}]{0,200}\))\s{0,20}=>")
INDEX = re.compile(r"\[\s{0,20}\d+\s{0,20}\]")
AFTER_VALUE = ("word", ")", "]", '"')
CALLS = re.compile(r"[({`]")
BEFORE_TAG = set("(,?:=&|{[>;") | {""}
KEY = re.compile(r"(?<![\w$])[A-Za-z_$][\w$]*+\s*+:")


@dataclass
class Expression:
    """`is_plain` means that nothing in it can call, construct or assign anything of the page's choice."""

    source: str = ""
    end: int = 0
    is_plain: bool = True
    strings: list[str] = field(default_factory=list)
    tags: list["Tag"] = field(default_factory=list)
    code: str = ""
    """The source with nothing in place of strings, comments and tags."""

    @property
    def literal(self) -> str | None:
        """The text that it stands for, where it is one string without escapes or placeholders."""
        text = self.source.strip()
        if len(self.strings) == 1 and self.is_plain and len(text) >= 2 and text[1:-1] == self.strings[0]:
            return None if "\\" in text else self.strings[0]
        return None

    @property
    def is_static(self) -> bool:
        """Whether no name stands where a value is expected."""
        values = KEY.sub(" ", self.code)
        return all(word in ("true", "false", "null") for word in WORD.findall(values))


@dataclass
class Tag:
    name: str = ""
    end: int = 0
    attributes: list[tuple[str, "str | Expression | None"]] = field(default_factory=list)
    spreads: list[Expression] = field(default_factory=list)


def read_tag(text: str, start: int) -> Tag:
    """Reads the tag that begins at `start`; one that nothing ends is read as far as the text goes."""
    name = NAME.match(text, start + 1)
    tag = Tag(name.group() if name else "")
    position = name.end() if name else start + 1
    while position < len(text):
        character = text[position]
        if character == ">":
            position += 1
            break
        if character == "{":
            spread = read_expression(text, position)
            tag.spreads.append(spread)
            position = spread.end
        elif attribute := NAME.match(text, position):
            position = _read_attribute(text, attribute, tag)
        elif character == "<":
            break
        else:
            position += 1
    tag.end = position
    return tag


def _read_attribute(text: str, name: re.Match[str], tag: Tag) -> int:
    position = _skip_space(text, name.end())
    if text[position : position + 1] != "=":
        tag.attributes.append((name.group(), None))
        return name.end()
    position = _skip_space(text, position + 1)
    mark = text[position : position + 1]
    if mark == "{":
        value = read_expression(text, position)
        tag.attributes.append((name.group(), value))
        return value.end
    if mark in ('"', "'"):
        end = text.find(mark, position + 1)
        if end < 0:  # a browser may read on right after the quote
            return position + 1
        tag.attributes.append((name.group(), decode(text[position + 1 : end])))
        return end + 1
    bare = re.compile(r"[^\s>]*").match(text, position)
    assert bare is not None
    tag.attributes.append((name.group(), decode(bare.group())))
    return max(bare.end(), position)


def decode(value: str) -> str:
    return html.unescape(value)


def _skip_space(text: str, position: int) -> int:
    while text[position : position + 1].isspace():
        position += 1
    return position


class _Reader:
    def __init__(self, text: str, start: int) -> None:
        self.text, self.start, self.position = text, start, start + 1
        self.found = Expression()
        self.before, self.method = "", ""
        self.code: list[str] = []
        self.comments: list[str] = []
        self.depth = 1

    def read(self) -> Expression:
        text, found = self.text, self.found
        while self.position < len(text) and self.depth:
            self._step(text[self.position])
        if self.depth:
            found.is_plain = False  # nothing ends it
        if found.tags and any(CALLS.search(text) for text in (*found.strings, *self.comments)):
            found.is_plain = False  # in the text of an element, quotes and slashes are only signs
        found.end = self.position
        found.source = text[self.start + 1 : self.position - (0 if self.depth else 1)]
        found.code = "".join(self.code)
        return found

    def _step(self, character: str) -> None:
        text, at = self.text, self.position
        if character in QUOTED:
            self._take_string(QUOTED[character])
        elif character == "`":
            self._take_template()
        elif text.startswith(("//", "/*"), at):
            end = text.find("\n" if text[at + 1] == "/" else "*/", at + 2)
            self.position = len(text) if end < 0 else end + (1 if text[at + 1] == "/" else 2)
            self.comments.append(text[at : self.position])
        elif character == "<" and self.before[-1:] in BEFORE_TAG and re.match(r"[A-Za-z_$]", text[at + 1 : at + 2]):
            tag = read_tag(text, at)
            self.found.tags.append(tag)
            self.position, self.before = tag.end, ">"
        elif word := WORD.match(text, at):
            self._take_word(word)
        else:
            self._take_sign(character)

    def _take_string(self, pattern: re.Pattern[str]) -> None:
        inner = pattern.match(self.text, self.position + 1)
        assert inner is not None
        self.found.strings.append(inner.group())
        self.code.append("''")
        self.position, self.before = inner.end() + 1, '"'

    def _take_template(self) -> None:
        if self.before[-1:] in (")", "]") or self.before == "word":
            self.found.is_plain = False  # a tagged template is a call
        end = self.text.find("`", self.position + 1)
        while end > 0 and self.text[end - 1] == "\\":
            end = self.text.find("`", end + 1)
        end = len(self.text) if end < 0 else end
        inner = self.text[self.position + 1 : end]
        if "${" in inner:
            self.found.is_plain = False
        self.found.strings.append(inner)
        self.code.append("''")
        self.position, self.before = end + 1, '"'

    def _take_word(self, word: re.Match[str]) -> None:
        if word.group() in WORDS_THAT_RUN:
            self.found.is_plain = False
        self.code.append(word.group())
        self.method = word.group() if self.before == "." else ""
        self.position, self.before = word.end(), "word"

    def _take_sign(self, character: str) -> None:
        runs: dict[str, Callable[[], bool]] = {
            "(": self._is_unsafe_call,
            "[": self._is_lookup,
            "=": self._is_assignment,
            "\\": lambda: True,
        }
        if character in runs and runs[character]():
            self.found.is_plain = False
        self.depth += {"{": 1, "}": -1}.get(character, 0)
        if not character.isspace():
            self.before = character
        self.code.append(character)
        self.position += 1

    def _is_unsafe_call(self) -> bool:
        """Whether a parenthesis calls more than a method that runs at most a function written right there."""
        if self.before == "word" and self.method in CALLBACK_METHODS:
            return ARROW.match(self.text, self.position) is None
        if self.before == "word":
            return self.method not in SAFE_METHODS
        return self.before in (*AFTER_VALUE, ".")

    def _is_lookup(self) -> bool:
        return self.before in AFTER_VALUE and INDEX.match(self.text, self.position) is None

    def _is_assignment(self) -> bool:
        following = self.text[self.position + 1 : self.position + 2]
        return following not in ("=", ">") and self.before not in ("=", "!", "<", ">")


def read_expression(text: str, start: int) -> Expression:
    """Reads the expression whose opening brace stands at `start`."""
    return _Reader(text, start).read()
