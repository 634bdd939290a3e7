"""Published numbers, figures and claims beside ours."""
