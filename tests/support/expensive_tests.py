"""The tests of the default tier that may cost more than the budget.

Each shows something that is dear to show and that nobody should have to wait for the deep tier to learn: a mechanism
that survives a kill, a boundary that no request crosses, or a complete way through the product.
"""

ALLOWED = frozenset(
    {
        # Kills
        "tests/automations/test_crashed_comments.py::test_killed_run_that_appends_comments_once",
        "tests/automations/test_crashed_runs.py::test_killed_run_opens_one_pull_request",
        "tests/jobs/sandbox/test_sandbox.py::test_no_process_outlives_a_killed_worker_whose_pipes_are_shared",
        "tests/jobs/workflow/isolation/test_child_pool.py::test_children_end_when_the_service_is_killed",
        "tests/mail/test_outbox.py::test_killed_server_loses_no_mail",
        "tests/web/test_durability.py::test_acknowledged_events_survive_a_kill",
        # Boundaries
        "tests/jobs/checks/test_not_judged.py::test_rule_that_cannot_see_does_not_pass",
        "tests/jobs/publish/guard/test_secrets.py::test_complete_run_exposes_no_secret",
        "tests/jobs/test_injection.py::test_endless_task_ends_when_the_budget_is_used_up",
        "tests/jobs/test_injection.py::test_injected_write_to_a_forbidden_path_is_refused",
        "tests/web/api/test_job_events.py::test_malformed_gzip_and_gzip_bombs_are_refused",
        "tests/web/dashboard/auth/test_roles.py::test_role_permissions_match_the_table",
        "tests/web/test_project_isolation.py::test_another_project_looks_exactly_like_one_that_does_not_exist",
        "tests/web/test_project_isolation.py::test_events_key_can_only_send_events",
        "tests/web/test_project_isolation.py::test_no_route_accepts_an_invalid_key",
        "tests/web/test_project_isolation.py::test_no_route_answers_without_a_key",
        "tests/web/test_project_isolation.py::test_read_key_can_only_read",
        # Complete ways through the product
        "tests/cli/commands/test_backup.py::test_restore_does_not_overwrite_another_key",
        "tests/analytics/log_import/test_command.py::test_the_summary_accounts_for_every_line",
        "tests/core/db/test_database.py::test_two_processes_that_start_at_once_migrate_once",
        "tests/jobs/publish/forges/test_end_to_end.py::test_prompt_becomes_a_pull_request_that_follows_the_policy",
        "tests/web/dashboard/auth/test_password_reset.py::test_person_sets_a_new_password_with_a_link_from_a_mail",
        "tests/web/dashboard/projects/test_project_deletion.py::"
        "test_deleted_project_leaves_nothing_and_others_are_unchanged",
        # All of the code, the schema or the documentation at once
        "tests/test_layout.py::test_imports_follow_the_layer_order",
        "tests/test_layout.py::test_schema_equals_the_sum_of_its_migrations",
        "tests/test_docs.py::test_every_route_is_documented",
    }
)
