//! CRC-64 with Jones' polynomial, bits reflected, neither start nor end inverted: eight bytes at a time with eight tables.

const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

static TABLES: [[u64; 256]; 8] = tables();

const fn tables() -> [[u64; 256]; 8] {
    let mut tables = [[0u64; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// The checksum of bytes that follow others whose checksum is `crc`; 0: no others.
pub fn crc64(mut crc: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let word = crc ^ u64::from_le_bytes(*word);
        crc = 0;
        for (n, table) in TABLES.iter().rev().enumerate() {
            crc ^= table[usize::from((word >> (8 * n)) as u8)];
        }
    }
    for byte in rest {
        crc = (crc >> 8) ^ TABLES[0][usize::from(crc as u8 ^ byte)];
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_redis() {
        assert_eq!(crc64(0, b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        assert_eq!(crc64(0, b""), 0);
    }

    #[test]
    fn pieces_of_any_length_give_the_same() {
        let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(1000).collect();
        let whole = crc64(0, &bytes);
        for at in 0..64 {
            let (head, tail) = bytes.split_at(at);
            assert_eq!(crc64(crc64(0, head), tail), whole, "cut at {at}");
        }
    }
}
