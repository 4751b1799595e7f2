"""Tables of counts fitted to noisy answers: post-processing of released numbers, which never sees private rows."""
