"""The judging roles: what a judge is asked, how what it judges is fenced off, and how its verdict is read."""
