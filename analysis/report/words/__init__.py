"""Words of the pages: numbers, ranks, findings and the glossary."""
