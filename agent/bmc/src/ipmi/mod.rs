//! IPMI 2.0.
