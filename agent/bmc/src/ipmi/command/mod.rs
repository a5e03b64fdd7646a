//! What is asked of a BMC, command by command.
