"""The analytics page of one page of the site, with a button that starts a job to improve it."""
