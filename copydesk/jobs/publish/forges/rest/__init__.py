"""The forges with a REST API: GitHub, GitLab, Gitea and Forgejo."""
