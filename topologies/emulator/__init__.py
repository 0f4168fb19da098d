"""A topology in virtual time: programs, an Internet layer with TCP, and links that are functions of time."""
