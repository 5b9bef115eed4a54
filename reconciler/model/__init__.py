"""The nouns: frozen, slotted, standard library only. Nothing here reads a clock, a file or a socket."""
