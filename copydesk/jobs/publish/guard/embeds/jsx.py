"""Reads one JSX tag or one expression in braces in a single pass."""

import html
import re
from collections.abc import Callable
from dataclasses import dataclass, field

WORD_PATTERN = re.compile(r"[A-Za-z_$][\w$]*")
NAME_PATTERN = re.compile(r"[A-Za-z_$][\w$.:-]*")
STRING_PATTERNS = {
    '"': re.compile(r"[^\"\\\n]*(?:\\.[^\"\\\n]*)*", re.S),
    "'": re.compile(r"[^'\\\n]*(?:\\.[^'\\\n]*)*", re.S),
}
SAFE_METHODS = {
    "join", "slice", "concat", "includes", "trim", "toUpperCase", "toLowerCase", "toLocaleString", "toFixed",
    "padStart", "padEnd", "keys", "values", "entries", "reverse", "at",
}  # fmt: skip
CALLBACK_METHODS = {"map", "filter", "sort", "flatMap"}
UNSAFE_WORDS = {
    "new", "import", "await", "delete", "yield", "class", "function", "async", "with", "throw", "while", "for", "do",
    "constructor", "__proto__", "prototype", "eval", "Function", "window", "document", "globalThis", "self", "top",
    "parent", "navigator",
}  # fmt: skip
ARROW_FUNCTION_PATTERN = re.compile(r"\(\s{0,20}(?:[\w$]{1,50}|\([\w$\s,{}]{0,200}\))\s{0,20}=>")
INDEX_PATTERN = re.compile(r"\[\s{0,20}\d+\s{0,20}\]")
VALUE_ENDS = ("word", ")", "]", '"')
CALL_PATTERN = re.compile(r"[({`]")
TAG_PREDECESSORS = set("(,?:=&|{[>;") | {""}
OBJECT_KEY_PATTERN = re.compile(r"(?<![\w$])[A-Za-z_$][\w$]*+\s*+:")


@dataclass
class Expression:
    """An expression in braces.

    `is_plain` means that it calls only harmless methods, and constructs or assigns nothing.
    """

    source: str = ""
    end: int = 0
    is_plain: bool = True
    strings: list[str] = field(default_factory=list)
    tags: list["Tag"] = field(default_factory=list)
    code: str = ""
    """The source with empty strings, and without comments and tags."""

    @property
    def literal(self) -> str | None:
        """The value, if the expression is a single string without escapes and placeholders; else None."""
        text = self.source.strip()
        if len(self.strings) == 1 and self.is_plain and len(text) >= 2 and text[1:-1] == self.strings[0]:
            return None if "\\" in text else self.strings[0]
        return None

    @property
    def is_static(self) -> bool:
        """Whether the values contain no variable names."""
        values = OBJECT_KEY_PATTERN.sub(" ", self.code)
        return all(word in ("true", "false", "null") for word in WORD_PATTERN.findall(values))


@dataclass
class Tag:
    name: str = ""
    end: int = 0
    attributes: list[tuple[str, "str | Expression | None"]] = field(default_factory=list)
    spreads: list[Expression] = field(default_factory=list)


def read_tag(text: str, start: int) -> Tag:
    """Reads the tag that begins at `start`. An unclosed tag extends to the end of the text."""
    name = NAME_PATTERN.match(text, start + 1)
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
        elif attribute := NAME_PATTERN.match(text, position):
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
    delimiter = text[position : position + 1]
    if delimiter == "{":
        value = read_expression(text, position)
        tag.attributes.append((name.group(), value))
        return value.end
    if delimiter in ('"', "'"):
        end = text.find(delimiter, position + 1)
        if end < 0:  # a browser may continue right after the quote
            return position + 1
        tag.attributes.append((name.group(), decode_entities(text[position + 1 : end])))
        return end + 1
    bare = re.compile(r"[^\s>]*").match(text, position)
    assert bare is not None
    tag.attributes.append((name.group(), decode_entities(bare.group())))
    return max(bare.end(), position)


def decode_entities(value: str) -> str:
    return html.unescape(value)


def _skip_space(text: str, position: int) -> int:
    while text[position : position + 1].isspace():
        position += 1
    return position


class _ExpressionReader:
    def __init__(self, text: str, start: int) -> None:
        self.text = text
        self.start = start
        self.position = start + 1
        self.expression = Expression()
        self.previous_lexeme = ""
        self.method = ""
        self.code_parts: list[str] = []
        self.comments: list[str] = []
        self.depth = 1

    def read(self) -> Expression:
        text = self.text
        expression = self.expression
        while self.position < len(text) and self.depth:
            self._step(text[self.position])
        if self.depth:
            expression.is_plain = False  # the expression is not closed
        if expression.tags and any(CALL_PATTERN.search(text) for text in (*expression.strings, *self.comments)):
            expression.is_plain = False  # in an element's text, quotes and slashes are plain characters
        expression.end = self.position
        expression.source = text[self.start + 1 : self.position - (0 if self.depth else 1)]
        expression.code = "".join(self.code_parts)
        return expression

    def _step(self, character: str) -> None:
        text = self.text
        position = self.position
        if character in STRING_PATTERNS:
            self._take_string(STRING_PATTERNS[character])
        elif character == "`":
            self._take_template()
        elif text.startswith(("//", "/*"), position):
            end = text.find("\n" if text[position + 1] == "/" else "*/", position + 2)
            self.position = len(text) if end < 0 else end + (1 if text[position + 1] == "/" else 2)
            self.comments.append(text[position : self.position])
        elif (
            character == "<"
            and self.previous_lexeme[-1:] in TAG_PREDECESSORS
            and re.match(r"[A-Za-z_$]", text[position + 1 : position + 2])
        ):
            tag = read_tag(text, position)
            self.expression.tags.append(tag)
            self.position = tag.end
            self.previous_lexeme = ">"
        elif word := WORD_PATTERN.match(text, position):
            self._take_word(word)
        else:
            self._take_symbol(character)

    def _take_string(self, pattern: re.Pattern[str]) -> None:
        inner = pattern.match(self.text, self.position + 1)
        assert inner is not None
        self.expression.strings.append(inner.group())
        self.code_parts.append("''")
        self.position = inner.end() + 1
        self.previous_lexeme = '"'

    def _take_template(self) -> None:
        if self.previous_lexeme[-1:] in (")", "]") or self.previous_lexeme == "word":
            self.expression.is_plain = False  # a tagged template is a call
        end = self.text.find("`", self.position + 1)
        while end > 0 and self.text[end - 1] == "\\":
            end = self.text.find("`", end + 1)
        end = len(self.text) if end < 0 else end
        inner = self.text[self.position + 1 : end]
        if "${" in inner:
            self.expression.is_plain = False
        self.expression.strings.append(inner)
        self.code_parts.append("''")
        self.position = end + 1
        self.previous_lexeme = '"'

    def _take_word(self, word: re.Match[str]) -> None:
        if word.group() in UNSAFE_WORDS:
            self.expression.is_plain = False
        self.code_parts.append(word.group())
        self.method = word.group() if self.previous_lexeme == "." else ""
        self.position = word.end()
        self.previous_lexeme = "word"

    def _take_symbol(self, character: str) -> None:
        unsafe_checks: dict[str, Callable[[], bool]] = {
            "(": self._is_unsafe_call,
            "[": self._is_lookup,
            "=": self._is_assignment,
            "\\": lambda: True,
        }
        if character in unsafe_checks and unsafe_checks[character]():
            self.expression.is_plain = False
        self.depth += {"{": 1, "}": -1}.get(character, 0)
        if not character.isspace():
            self.previous_lexeme = character
        self.code_parts.append(character)
        self.position += 1

    def _is_unsafe_call(self) -> bool:
        """Returns whether a parenthesis calls anything but a harmless method or one with an inline arrow function."""
        if self.previous_lexeme == "word" and self.method in CALLBACK_METHODS:
            return ARROW_FUNCTION_PATTERN.match(self.text, self.position) is None
        if self.previous_lexeme == "word":
            return self.method not in SAFE_METHODS
        return self.previous_lexeme in (*VALUE_ENDS, ".")

    def _is_lookup(self) -> bool:
        return self.previous_lexeme in VALUE_ENDS and INDEX_PATTERN.match(self.text, self.position) is None

    def _is_assignment(self) -> bool:
        following = self.text[self.position + 1 : self.position + 2]
        return following not in ("=", ">") and self.previous_lexeme not in ("=", "!", "<", ">")


def read_expression(text: str, start: int) -> Expression:
    """Reads the expression whose opening brace is at `start`."""
    return _ExpressionReader(text, start).read()
