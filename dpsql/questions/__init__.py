"""What is asked, before anything is trusted: questions, rules that rewrite them, and words for people."""
