"""copydesk job … --watch: shows each event and each part of the summary once."""

import pytest

from copydesk.cli.job_watcher import remove_shown_paragraphs
from copydesk.jobs.service import NewJob
from copydesk.jobs.storage.records import update_job
from tests.support.command_line import Run, parse_output, run_command, set_client_variables
from tests.support.service import Service

UNDERSTOOD = "I understood: replace “colour” with “color” on every page, leaving code alone."


@pytest.fixture
def run(service: Service, monkeypatch: pytest.MonkeyPatch) -> Run:
    set_client_variables(service, monkeypatch)
    return run_command


@pytest.mark.deep
def test_watched_message_shows_only_what_happens_after_it(run: Run) -> None:
    job = parse_output(run("job", "create", "Replace colour with color", "--watch", "--json"))["id"]
    watched = run("job", "message", job, "Replace Hello with Welcome", "--watch")
    assert watched.exit_code == 0
    lines = watched.stdout.splitlines()
    assert lines[0].endswith("  “Replace Hello with Welcome”")
    assert "colour" not in watched.stdout.partition("\njob ")[0]
    assert watched.stdout.count("  completed") == 2, "the end of the second run, and the status"
    assert "Message sent. This is what happens from now on" in watched.stderr
    assert f"copydesk job watch {job}" in watched.stderr
    whole = run("job", "watch", job).stdout
    assert "“Replace colour with color”" in whole
    assert "“Replace Hello with Welcome”" in whole


@pytest.mark.deep
def test_second_message_of_the_same_text_is_told_from_the_first(run: Run) -> None:
    job = parse_output(run("job", "create", "Replace colour with color", "--watch", "--json"))["id"]
    for _ in range(2):
        watched = run("job", "message", job, "Replace nonexistent with existing", "--watch")
        assert watched.stdout.count("“Replace nonexistent with existing”") == 1


@pytest.mark.deep
def test_watched_message_prints_one_json_object(run: Run) -> None:
    job = parse_output(run("job", "create", "Replace colour with color", "--watch", "--json"))
    result = run("job", "message", job["id"], "Replace Hello with Welcome", "--watch", "--json")
    assert parse_output(result)["id"] == job["id"]
    assert result.stderr == ""


@pytest.mark.deep
def test_summary_of_a_watched_job_is_printed_once(run: Run) -> None:
    job = parse_output(run("job", "create", "Replace colour with color", "--watch", "--json"))
    watched = run("job", "watch", job["id"]).stdout
    assert watched.count(UNDERSTOOD) == 1
    for line in filter(None, job["summary"].splitlines()):
        assert watched.count(line) == 1, line
    assert "\n          Found 1 occurrence in 1 file.\n" in watched, "below the first line of the event"
    assert run("job", "get", job["id"]).stdout.count(UNDERSTOOD) == 1


def test_job_is_printed_with_what_to_review_first(run: Run, service: Service) -> None:
    job = service.desk.jobs.create(service.project, NewJob("Nothing that the mechanic knows.")).job
    risks = [{"kind": "failed_check", "text": "The link is broken."}, {"kind": "unsure", "text": "Whether it is so."}]
    with service.desk.database.write() as tx:
        update_job(service.desk.database, tx, job.id, [], risk=risks)
    lines = [line.strip() for line in run("job", "get", job.id).stdout.splitlines()]
    first = lines.index("review first  failed check: The link is broken.")
    assert lines[first + 1] == "unsure: Whether it is so."


@pytest.mark.parametrize(
    ("summary", "texts", "rest"),
    [
        ("Fixed it.", [], "Fixed it."),
        ("Fixed it.", ["Looking.", "Fixed it."], ""),
        ("First.\n\nChanged one file.\n\nSecond.", ["First.", "Second."], "Changed one file."),
        ("First.\n\nSecond.", ["First.\n\nSecond.\n"], ""),
        ("Fixed it all.", ["Fixed it"], "Fixed it all."),
        ("", ["Anything"], ""),
    ],
)
def test_paragraphs_that_events_showed_are_left_out(summary: str, texts: list[str], rest: str) -> None:
    assert remove_shown_paragraphs(summary, texts) == rest
