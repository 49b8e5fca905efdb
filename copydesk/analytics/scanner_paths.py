"""The paths that vulnerability scanners try on every site, so that they do not hide the missing pages of readers."""

import re

SCANNER_PATH_PATTERN = re.compile(
    r"""
    /\.[^/]                                                    # /.git/config, /.env.local, /.aws/credentials
    | /wp-(?:admin|content|includes|json|login|config|cron|signup)\b
    | /(?:xmlrpc|phpinfo|eval-stdin|adminer|shell|wso|alfa|setup-config|info|test|config|admin|install|upload)\.php
    | ^/(?:phpmyadmin|pma|myadmin|mysqladmin|cgi-bin|boaform|hnap1|_ignition|vendor/phpunit|owa/auth)(?:/|$)
    """,
    re.IGNORECASE | re.VERBOSE,
)


def is_scanner_path(path: str) -> bool:
    """Returns whether a missing page has a path that scanners try. Call it only for requests that found no page."""
    return SCANNER_PATH_PATTERN.search(path) is not None
