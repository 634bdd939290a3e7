"""Models of single worlds beside a comparison: closed forms, profiles, tables of their own."""
