//! RecordIO, the framing of all streams of the Mesos API (spec §1.10): `<length in decimal
//! ASCII>\n`, then exactly that many bytes, no separator behind them. Must not know what a
//! record holds. Next: `convert.rs`.

use bytes::{Buf, Bytes, BytesMut};
use thiserror::Error;

/// Digits of the longest length that is read at all.
const DIGITS_MAX: usize = 20;

/// The record in its frame. Clients exist that want each record in an HTTP chunk of its own, so
/// this is what goes into one write.
#[must_use]
pub fn frame(record: &[u8]) -> Bytes {
    let mut framed = Vec::with_capacity(record.len() + DIGITS_MAX + 1);
    framed.extend_from_slice(record.len().to_string().as_bytes());
    framed.push(b'\n');
    framed.extend_from_slice(record);
    framed.into()
}

/// Why a stream is no RecordIO. The stream is of no use afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RecordError {
    /// Something else than digits before the line feed.
    #[error("length of a record is no decimal number")]
    Length,
    /// A record above the limit.
    #[error("record of {length} bytes is longer than {bytes_max}")]
    TooLong {
        /// Its length.
        length: u64,
        /// The limit.
        bytes_max: usize,
    },
}

/// Takes a stream apart, however its bytes arrive.
#[derive(Debug)]
pub struct Decoder {
    unread: BytesMut,
    /// Length of the record whose frame has been read.
    record_bytes: Option<usize>,
    record_bytes_max: usize,
}

impl Decoder {
    /// Records longer than `record_bytes_max` are an error.
    #[must_use]
    pub fn new(record_bytes_max: usize) -> Self {
        Self { unread: BytesMut::new(), record_bytes: None, record_bytes_max }
    }

    /// Takes the next bytes of the stream and returns the records that they complete.
    ///
    /// # Errors
    /// When they are no RecordIO, or a record is too long. Records before the fault are lost.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Bytes>, RecordError> {
        self.unread.extend_from_slice(bytes);
        let mut records = Vec::new();
        while let Some(record) = self.next_record()? {
            records.push(record);
        }
        Ok(records)
    }

    /// Whether the stream may end here: no record is half read.
    #[must_use]
    pub fn is_between_records(&self) -> bool {
        self.unread.is_empty() && self.record_bytes.is_none()
    }

    fn next_record(&mut self) -> Result<Option<Bytes>, RecordError> {
        let length = match self.record_bytes {
            Some(length) => length,
            None => match self.next_length()? {
                Some(length) => length,
                None => return Ok(None),
            },
        };
        if self.unread.len() < length {
            self.record_bytes = Some(length);
            return Ok(None);
        }
        self.record_bytes = None;
        Ok(Some(self.unread.split_to(length).freeze()))
    }

    fn next_length(&mut self) -> Result<Option<usize>, RecordError> {
        let header = &self.unread[..self.unread.len().min(DIGITS_MAX + 1)];
        let end = header.iter().position(|byte| *byte == b'\n');
        let digits = &header[..end.unwrap_or(header.len())];
        if !digits.iter().all(u8::is_ascii_digit) || digits.len() > DIGITS_MAX {
            return Err(RecordError::Length);
        }
        let Some(end) = end else {
            return Ok(None);
        };
        let length: u64 = std::str::from_utf8(digits)
            .ok()
            .and_then(|digits| digits.parse().ok())
            .ok_or(RecordError::Length)?;
        self.unread.advance(end + 1);
        match usize::try_from(length) {
            Ok(fits) if fits <= self.record_bytes_max => Ok(Some(fits)),
            _ => Err(RecordError::TooLong { length, bytes_max: self.record_bytes_max }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stream: &[u8], expected: Result<&[&[u8]], RecordError>) {
        // However the stream is cut in two, the result is the same.
        for cut in 0..=stream.len() {
            let mut decoder = Decoder::new(64);
            let result = decoder.push(&stream[..cut]).and_then(|mut records| {
                records.extend(decoder.push(&stream[cut..])?);
                Ok(records)
            });
            let result = result.as_ref().map(|r| r.iter().map(|b| &b[..]).collect::<Vec<_>>());
            assert_eq!(result, expected.as_ref().map(|e| e.to_vec()), "cut at {cut}");
        }
    }

    #[test]
    fn streams() {
        check(b"", Ok(&[]));
        check(b"3\nabc", Ok(&[b"abc"]));
        check(b"3\nabc0\n2\n\n\n", Ok(&[b"abc", b"", b"\n\n"]));
        check(b"3\nab", Ok(&[]));
        check(b"003\nabc", Ok(&[b"abc"]));
        check(b"3 \nabc", Err(RecordError::Length));
        check(b"-1\n", Err(RecordError::Length));
        check(b"\nabc", Err(RecordError::Length));
        check(b"99999999999999999999\n", Err(RecordError::Length));
        check(b"123456789012345678901", Err(RecordError::Length));
        check(b"65\n", Err(RecordError::TooLong { length: 65, bytes_max: 64 }));
    }

    #[test]
    fn framed_records_come_back_byte_by_byte() {
        let records: [&[u8]; 3] = [b"{}", b"", b"5\nhello"];
        let stream: Vec<u8> = records.iter().flat_map(|record| frame(record)).collect();
        let mut decoder = Decoder::new(64);
        let mut read = Vec::new();
        for byte in stream {
            read.extend(decoder.push(&[byte]).unwrap());
        }
        assert_eq!(read, records);
        assert!(decoder.is_between_records());
        decoder.push(b"1\n").unwrap();
        assert!(!decoder.is_between_records());
    }
}
