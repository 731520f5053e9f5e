"""What the store in PostgreSQL is made of: connections, the table, filters as SQL."""
