"""Every user-facing error has its message in every mode of Python."""

import subprocess
import sys

import pytest

PROGRAM = """
import pkgutil, importlib, copydesk
from copydesk.core.errors import UserFacingError

for module in pkgutil.walk_packages(copydesk.__path__, "copydesk."):
    if "migrations" not in module.name and not module.name.endswith("__main__"):
        importlib.import_module(module.name)

def subclasses(kind):
    for each in kind.__subclasses__():
        yield each
        yield from subclasses(each)

for kind in (UserFacingError, *subclasses(UserFacingError)):
    assert kind.message.strip(), kind
print(kind.__doc__, UserFacingError("Given.").message, UserFacingError().message, sep="|")
"""


@pytest.mark.deep
def test_errors_keep_their_messages_without_docstrings() -> None:
    """`python -OO` drops docstrings."""
    run = subprocess.run([sys.executable, "-OO", "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == "None|Given.|Something went wrong.\n"
