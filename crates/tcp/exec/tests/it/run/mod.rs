//! Single commands against plain references: every unit's rule is written a second time here, as directly as
//! it can be said.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::cast_possible_truncation, reason = "test sizes are small")]
#![expect(clippy::cast_sign_loss, reason = "test offsets are not negative where they are cast")]

mod attention;
mod bulk;
mod contract;
mod convolution;
mod exec_modes;
mod fetch;
mod grants;
mod images;
mod state;
mod switch;
mod tail;
mod transfer;
mod weights;
