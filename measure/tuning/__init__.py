"""Tuning: selecting the candidates, measuring them, and finding those that are never needed."""
