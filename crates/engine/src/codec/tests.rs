use super::*;

fn text(n: usize) -> Vec<u8> {
    (0..n).map(|i| b"the quick brown fox jumps over"[(i + i / 1000) % 30]).collect()
}

fn noise(n: usize, mut seed: u64) -> Vec<u8> {
    (0..n)
        .map(|_| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 56) as u8
        })
        .collect()
}

#[test]
fn every_codec_round_trips_and_refuses_wrong_lengths() {
    let mut compressor = Compressor::default();
    for codec in Codec::ALL.into_iter().skip(1) {
        for input in [text(400), text(4096), text(70_000), vec![0; 1 << 20], text(3 << 20)] {
            let how = Compression { codec, ..Default::default() };
            let mut out = b"kept".to_vec();
            assert!(compressor.compress(how, None, &input, &mut out), "{codec:?} {}", input.len());
            assert_eq!(&out[..4], b"kept");
            let packed = &out[4..];
            assert!(packed.len() <= input.len() - input.len() / 8);
            let mut raw = vec![1; input.len()];
            assert_eq!(decompress(codec, None, packed, &mut raw), Some(()), "{codec:?} {}", input.len());
            assert!(raw == input);
            for wrong in [input.len() - 1, input.len() + 1, 1, 0] {
                assert_eq!(decompress(codec, None, packed, &mut vec![0; wrong]), None, "{codec:?} {wrong}");
            }
            for cut in [0, 1, packed.len() / 2, packed.len() - 1] {
                assert_eq!(decompress(codec, None, &packed[..cut], &mut raw), None, "{codec:?} cut {cut}");
            }
            // The thread's contexts still work after a failure.
            assert_eq!(decompress(codec, None, packed, &mut raw), Some(()), "{codec:?} {}", input.len());
            assert!(raw == input);
        }
    }
}

#[test]
fn what_comes_out_does_not_depend_on_what_came_before() {
    let inputs: Vec<Vec<u8>> = (1..40u64)
        .map(|seed| {
            let n = [700, 4096, 20_000, 64 << 10, 300_000][seed as usize % 5];
            let mut input = text(n);
            input.iter_mut().zip(noise(n, seed)).filter(|(_, noise)| *noise < 20).for_each(|(byte, noise)| *byte = noise);
            input
        })
        .collect();
    let mut used = Compressor::default();
    for codec in Codec::ALL {
        for level in codec.levels().map_or(vec![None], |levels| vec![None, Some((*levels.end()).min(4)), Some((*levels.start()).max(-3))]) {
            for input in &inputs {
                let how = Compression { codec, level, dictionary_bytes: 0 };
                let (mut fresh, mut again) = (Vec::new(), Vec::new());
                Compressor::default().compress(how, None, input, &mut fresh);
                used.compress(how, None, input, &mut again);
                assert!(fresh == again, "{how:?} {}", input.len());
            }
        }
    }
}

#[test]
fn what_does_not_shrink_is_refused() {
    let mut compressor = Compressor::default();
    for codec in Codec::ALL {
        for n in [1, 7, 16, 100, 4096, 100_000] {
            let mut out = Vec::new();
            assert!(!compressor.compress(Compression { codec, ..Default::default() }, None, &noise(n, 7), &mut out), "{codec:?} {n}");
            assert!(out.is_empty());
        }
    }
}

#[test]
fn random_bytes_never_panic() {
    for seed in 0..2000 {
        let input = noise(seed as usize % 200, seed);
        for codec in Codec::ALL {
            let mut out = vec![0; 1 + seed as usize % 500];
            let _ = decompress(codec, None, &input, &mut out);
        }
    }
}

#[test]
fn levels_and_dictionaries_matter() {
    let input = text(40_000);
    let mut compressor = Compressor::default();
    for (codec, levels) in [(Codec::Zstd, [-5, 19]), (Codec::Zlib, [1, 9]), (Codec::Bzip2, [1, 9])] {
        for level in levels {
            let mut out = Vec::new();
            assert!(compressor.compress(Compression { codec, level: Some(level), dictionary_bytes: 0 }, None, &input, &mut out));
            let mut raw = vec![0; input.len()];
            assert_eq!(decompress(codec, None, &out, &mut raw), Some(()));
            assert!(raw == input);
        }
    }
    let pieces: Vec<Vec<u8>> = (0..400u32)
        .map(|i| {
            format!(
                "{{\"user name\":{i},\"home city\":\"{}\",\"confirmed\":true,\"email address\":\"{:x}@example.org\"}}",
                i * i % 97,
                i * 7919
            )
        })
        .map(String::into_bytes)
        .collect();
    let sizes: Vec<usize> = pieces.iter().map(Vec::len).collect();
    let bytes = Dictionary::train(&pieces.concat(), &sizes, 2000).unwrap();
    let dictionary = Dictionary::new(&bytes).unwrap();
    let trained = Trained::new(bytes, None).unwrap();
    let how = Compression { codec: Codec::Zstd, level: None, dictionary_bytes: 2000 };
    let (mut with, mut without) = (0, 0);
    for piece in &pieces {
        let mut out = Vec::new();
        if compressor.compress(how, Some(&trained), piece, &mut out) {
            let mut raw = vec![0; piece.len()];
            assert_eq!(decompress(Codec::Zstd, Some(&dictionary), &out, &mut raw), Some(()));
            assert_eq!(&raw, piece);
            assert_eq!(decompress(Codec::Zstd, None, &out, &mut raw), None, "needs its dictionary");
        }
        with += if out.is_empty() { piece.len() } else { out.len() };
        let mut out = Vec::new();
        compressor.compress(how, None, piece, &mut out);
        without += if out.is_empty() { piece.len() } else { out.len() };
    }
    assert!(with * 3 < without * 2, "{with} {without}");
    assert!(Dictionary::train(b"ab", &[2], 2000).is_none());
}
