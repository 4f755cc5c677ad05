"""Decode: what a request holds, as structs; nothing accepted is lost, nothing unfit passes."""
