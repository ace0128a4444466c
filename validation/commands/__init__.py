"""One file a subcommand; `validation.cli` only assembles them."""
