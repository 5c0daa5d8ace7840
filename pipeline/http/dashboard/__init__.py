"""The dashboard: pages for people, made by the server. They work without JavaScript, which only spares reloads."""
