"""Stores are copied, checked and put elsewhere:  back-up ▶ verify ▶ restore, and from one engine to another."""
