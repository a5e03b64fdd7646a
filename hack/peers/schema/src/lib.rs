//! Empty: only the manifest beside this matters.
