"""Draws a badge: a label and a number as SVG, without scripts, fonts or images to load."""

from markupsafe import Markup

FONT_PIXELS = 11
UNITS_PER_EM = 2048
DEFAULT_UNITS = 1302
CHAR_UNITS = {
    **dict.fromkeys("0123456789", 1302), " ": 720, ",": 745, ".": 745, "-": 930, "%": 2204,
    "a": 1230, "b": 1276, "c": 1067, "d": 1276, "e": 1220, "f": 720, "g": 1276, "h": 1296, "i": 562, "j": 705,
    "k": 1212, "l": 562, "m": 1992, "n": 1296, "o": 1243, "p": 1276, "q": 1276, "r": 874, "s": 1067, "t": 807,
    "u": 1296, "v": 1212, "w": 1676, "x": 1212, "y": 1212, "z": 1076, "A": 1400, "I": 862,
}  # fmt: skip
"""Widths of characters in Verdana, which the badge asks for first."""
HEIGHT_PIXELS, BASELINE_PIXELS, PADDING_PIXELS = 20, 14, 6

TEMPLATE = Markup(
    '<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" role="img" aria-label="{title}">'
    "<title>{title}</title>"
    '<rect width="{width}" height="{height}" rx="3" fill="#3d444d"/>'
    '<path d="M{split} 0h{number_width_less_corner}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3H{split}z" fill="#1a5fb4"/>'
    '<g fill="#fff" font-family="Verdana,Geneva,DejaVu Sans,sans-serif" font-size="{font}">'
    '<text x="{label_x}" y="{baseline}" textLength="{label_length}">{label}</text>'
    '<text x="{number_x}" y="{baseline}" textLength="{number_length}">{number}</text>'
    "</g></svg>\n"
)


def measure_text(text: str) -> int:
    """Returns the width of a text in pixels, rounded up. `textLength` makes other fonts fit this width."""
    units = sum(CHAR_UNITS.get(char, DEFAULT_UNITS) for char in text)
    return -(-units * FONT_PIXELS // UNITS_PER_EM)


def render_badge(label: str, number: str, title: str) -> str:
    """Returns the SVG. The title is its text for screen readers. All values are escaped."""
    label_length, number_length = measure_text(label), measure_text(number)
    split = label_length + 2 * PADDING_PIXELS
    number_width = number_length + 2 * PADDING_PIXELS
    return TEMPLATE.format(
        width=split + number_width,
        height=HEIGHT_PIXELS,
        split=split,
        number_width_less_corner=number_width - 3,
        font=FONT_PIXELS,
        baseline=BASELINE_PIXELS,
        label_x=PADDING_PIXELS,
        number_x=split + PADDING_PIXELS,
        label_length=label_length,
        number_length=number_length,
        label=label,
        number=number,
        title="".join(char if char.isprintable() else " " for char in title),
    )
