"""The forms by which a secret is recognized, as a table.

Each form has a fixed prefix, or another part that no other text has. It costs time in proportion to the text: a part of
variable length either ends its pattern, or is bounded, or cannot begin again inside itself.
"""

from typing import NamedTuple

PRIVATE_KEY_KIND = "Private Key"
CHECKED_ON = "2026-11-19"
"""When the forms were last compared with their sources."""


class SecretRule(NamedTuple):
    kind: str
    pattern: str
    covers: str
    source: str
    """Where the provider describes the form; if it does not, where it is known from."""


SECRET_RULES = (
    SecretRule(
        "AWS access key",
        r"(?:A3T[0-9A-Z]|A(?:BI|CC|KI|SI)A)[0-9A-Z]{16}",
        "IDs of long-term and temporary access keys, bearer tokens and service credentials",
        "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html",
    ),
    SecretRule(
        "AWS secret key",
        r"(?i:aws[^\n]{0,20}?(?:key|password|pass|pwd|pw|token)[^\n]{0,20}?)[\"'][0-9A-Za-z+/]{40}[\"']",
        "quoted secret access keys, after a name with aws and key, password or token",
        "https://docs.aws.amazon.com/IAM/latest/UserGuide/id_credentials_access-keys.html",
    ),
    SecretRule(
        "Anthropic API key",
        r"sk-ant-[a-z]+[0-9]{2}-[0-9A-Za-z_-]{80,}",
        "keys of the API and of administrators, OAuth tokens",
        "https://docs.github.com/en/code-security/reference/secret-security/supported-secret-scanning-patterns",
    ),
    SecretRule(
        "Azure storage key",
        r"AccountKey=[0-9A-Za-z+/=]{88}",
        "the key in a connection string",
        "https://learn.microsoft.com/en-us/azure/storage/common/storage-configure-connection-string",
    ),
    SecretRule(
        "DigitalOcean token",
        r"do[opr]_v1_[0-9a-f]{64}",
        "personal access tokens, OAuth tokens and refresh tokens",
        "https://docs.digitalocean.com/reference/api/create-personal-access-token/",
    ),
    SecretRule(
        "GitHub token",
        r"gh[oprsu]_[0-9A-Za-z_]{36,}",
        "personal, OAuth, user-to-server, server-to-server and refresh tokens",
        "https://github.blog/2021-04-05-behind-githubs-new-authentication-token-formats/",
    ),
    SecretRule(
        "GitHub fine-grained token",
        r"github_pat_[0-9A-Za-z_]{22}_[0-9A-Za-z_]{59}",
        "fine-grained personal access tokens",
        "https://docs.github.com/en/authentication/keeping-your-account-and-data-secure/about-authentication-to-github",
    ),
    SecretRule(
        "GitLab token",
        r"gl(?:agent|cbt|dt|ffct|ft|imt|oas|pat|ptt|rt|rtr|soat|wt)-[0-9A-Za-z_-]{20,}(?:\.[0-9a-z]{2}\.[0-9a-z]{9})?",
        "tokens of people, deployments, runners, jobs, feeds, mail, triggers, agents and applications",
        "https://docs.gitlab.com/security/tokens/#token-prefixes",
    ),
    SecretRule(
        "GitLab runner registration token",
        r"GR1348941[0-9A-Za-z_-]{20,}",
        "registration tokens of runners",
        "https://docs.gitlab.com/security/tokens/#token-prefixes",
    ),
    SecretRule(
        "Google API key",
        r"AIza[0-9A-Za-z_-]{35}(?![0-9A-Za-z_-])",
        "keys of Google Cloud, Maps, Firebase and Gemini",
        "https://docs.cloud.google.com/docs/authentication/api-keys",
    ),
    SecretRule(
        "Google OAuth client secret",
        r"GOCSPX-[0-9A-Za-z_-]{28}",
        "client secrets of OAuth applications",
        "https://developers.google.com/identity/protocols/oauth2/web-server",
    ),
    SecretRule(
        "Hugging Face token",
        r"hf_[0-9A-Za-z]{34}(?![0-9A-Za-z_])",
        "user access tokens",
        "https://huggingface.co/docs/hub/security-tokens",
    ),
    SecretRule(
        "npm token",
        r"npm_[0-9A-Za-z]{36}(?![0-9A-Za-z_])",
        "access tokens",
        "https://github.blog/changelog/2021-09-23-npm-has-a-new-access-token-format/",
    ),
    SecretRule(
        "OpenAI API key",  # the sign in its middle is the base64 of "OpenAI"
        r"sk-(?:(?!sk-)[0-9A-Za-z_-]){20,300}T3BlbkFJ[0-9A-Za-z_-]{20,}",
        "keys of users, projects, service accounts and administrators",
        "https://help.openai.com/en/articles/9186755-managing-projects-in-the-api-platform",
    ),
    SecretRule(
        "OpenAI API key",
        r"sk-(?:admin|proj|svcacct)-[0-9A-Za-z_-]{48,}",
        "the same without the sign in the middle",
        "https://help.openai.com/en/articles/9186755-managing-projects-in-the-api-platform",
    ),
    SecretRule(
        PRIVATE_KEY_KIND,
        r"BEGIN (?:[0-9A-Z]{2,9} ){0,2}PRIVATE KEY(?: BLOCK)?|PuTTY-User-Key-File-[23]",
        "PKCS #8, RSA, DSA, EC, OpenSSH, SSH2, PGP and PuTTY, encrypted or not; key material must follow",
        "https://www.rfc-editor.org/rfc/rfc7468",
    ),
    SecretRule(
        "PyPI token",
        r"pypi-Ag(?:EIcHlwaS5vcmc|ENdGVzdC5weXBpLm9yZw)[0-9A-Za-z_-]{70,}",
        "API tokens of pypi.org and test.pypi.org",
        "https://docs.pypi.org/api/secrets/",
    ),
    SecretRule(
        "SendGrid API key",
        r"SG\.[0-9A-Za-z_-]{22}\.[0-9A-Za-z_-]{43}",
        "API keys",
        "https://www.twilio.com/docs/sendgrid/ui/account-and-settings/api-keys",
    ),
    SecretRule(
        "Slack token",
        r"(?i:xox[abceoprs])-(?:[0-9]+-)+[0-9A-Za-z]+",
        "tokens of bots, users, workspaces and configurations, and refresh tokens",
        "https://docs.slack.dev/authentication/tokens/",
    ),
    SecretRule(
        "Slack app token",
        r"xapp-[0-9]-[0-9A-Z]+-[0-9]+-[0-9a-f]{64}",
        "app-level tokens",
        "https://docs.slack.dev/authentication/tokens/",
    ),
    SecretRule(
        "Slack webhook",
        r"(?i:https://hooks\.slack\.com/services/T[0-9a-z_]+/B[0-9a-z_]+/[0-9a-z_]+)",
        "addresses of incoming webhooks, which contain their secret",
        "https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks/",
    ),
    SecretRule(
        "Square secret",
        r"sq0(?:csp-[0-9A-Za-z\\_-]{43}|atp-[0-9A-Za-z_-]{22})",
        "application secrets and access tokens",
        "https://developer.squareup.com/docs/build-basics/access-tokens",
    ),
    SecretRule(
        "Stripe key",
        r"[rs]k_live_[0-9A-Za-z]{24,}",
        "secret and restricted keys of live mode",
        "https://docs.stripe.com/keys",
    ),
    SecretRule(
        "Telegram bot token",
        r"[0-9]{8,10}:[0-9A-Za-z_-]{35}",
        "tokens of bots",
        "https://core.telegram.org/bots/api#authorizing-your-bot",
    ),
    SecretRule(
        "Twilio API key",
        r"(?:AC|SK)[0-9a-z]{32}",
        "IDs of accounts and of API keys",
        "https://www.twilio.com/docs/glossary/what-is-a-sid",
    ),
)
