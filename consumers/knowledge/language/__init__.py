"""What a text says, found without any model: words, sentences, phrases, things, questions."""
