//! The laboratory of SinterDB.
