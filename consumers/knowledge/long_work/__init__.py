"""Work that a person starts and watches."""
