//! Credentials of BMCs and PDUs: rotation, and what a device rejects.

pub(super) mod interrupted_rotations;
pub(super) mod password_rotation;
pub(super) mod rejected_credentials;
