"""The dispatcher: what reaches its groups, and one method a file."""
