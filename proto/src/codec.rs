//! The message codec: Protocol Buffers with buffers of the size of a usual message.
//!
//! Owns the buffers of calls. Must never change the bytes on the wire.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::{ProstDecoder, ProstEncoder};

/// Initial size of a buffer, in bytes. Nearly all messages are smaller; for others it grows.
const BUFFER_SIZE: usize = 1024;
/// Encoded messages of a stream are sent together up to this size, in bytes; tonic's default.
const YIELD_THRESHOLD: usize = 32 * 1024;

/// The codec of the generated clients and servers. A caller waits for an operation on a stream, which keeps its
/// buffer for that time: with tonic's default (8 KiB), these buffers would be a fifth of the memory of an agent
/// while it switches 1,000 hosts.
pub(crate) struct SmallBufferCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for SmallBufferCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for SmallBufferCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::new(BufferSettings::new(BUFFER_SIZE, YIELD_THRESHOLD))
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::new(BufferSettings::new(BUFFER_SIZE, YIELD_THRESHOLD))
    }
}
