"""Finding new terms in what a group says, by counting: no model, no database. Pure."""
