use super::*;

#[test]
fn streams_have_the_values_they_always_had() {
    // Recorded once: results of different versions compare only as long as these stay.
    let firsts = |distribution: Distribution| {
        let mut stream = KeyStream::new(1_000_000, distribution, 42, 7);
        std::array::from_fn::<u64, 6, _>(|_| stream.next_key())
    };
    let permutation = Permutation::new(1_000_000, 42);
    assert_eq!(firsts(Distribution::Sequential), [0, 1, 2, 3, 4, 5]);
    assert_eq!(firsts(Distribution::Uniform), [947104, 702490, 930870, 21931, 589811, 62489]);
    assert_eq!(firsts(Distribution::Unique(permutation.clone())), [914870, 400196, 119305, 249290, 664314, 907322]);
    assert_eq!(firsts(Distribution::Zipf(Zipf::new(1_000_000, 0.99), permutation)), [914870, 515398, 400196, 46370, 310643, 488957]);
    assert_eq!(firsts(Distribution::Exponential(15.0)), [384339, 417385, 186063, 2664, 522936, 664241]);
}

#[test]
fn threads_draw_different_streams() {
    let mut a = KeyStream::new(1 << 40, Distribution::Uniform, 1, 0);
    let mut b = KeyStream::new(1 << 40, Distribution::Uniform, 1, 1);
    assert!((0..100).all(|_| a.next_key() != b.next_key()));
}

#[test]
fn sequential_starts_again() {
    let mut stream = KeyStream::new(3, Distribution::Sequential, 1, 0);
    assert_eq!((0..7).map(|_| stream.next_key()).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2, 0]);
}

#[test]
fn keys_are_those_of_db_bench() {
    let encode = |size, number| {
        let coder = KeyCoder::new(size);
        let mut buffer = coder.buffer();
        coder.write(u64::MAX, &mut buffer);
        coder.write(number, &mut buffer);
        buffer
    };
    assert_eq!(encode(16, 0x0102), b"\0\0\0\0\0\0\x01\x0200000000");
    assert_eq!(encode(8, 0x0102_0304_0506_0708), b"\x01\x02\x03\x04\x05\x06\x07\x08");
    assert_eq!(encode(9, 1), b"\0\0\0\0\0\0\0\x010");
    assert_eq!(encode(4, 0x0102_0304_0506_0708), b"\x05\x06\x07\x08");
    assert_eq!(encode(1, 0x1ff), b"\xff");
    assert_eq!(encode(17, 1)[..16], encode(16, 1)[..], "a missing key is an existing one with a character more");
}

#[test]
fn a_permutation_is_a_bijection() {
    for n in [1u64, 2, 3, 4, 5, 7, 8, 9, 100, 255, 256, 257, 1000, 65_537] {
        for key in [0, 1, u64::MAX] {
            let permutation = Permutation::new(n, key);
            let mut seen = vec![false; n as usize];
            for x in 0..n {
                let y = permutation.apply(x) as usize;
                assert!(!std::mem::replace(&mut seen[y], true), "n {n} key {key}: {y} twice");
            }
        }
    }
}

#[test]
fn a_permutation_does_not_keep_neighbours_together() {
    let n = 100_000;
    let permutation = Permutation::new(n, 9);
    let near = (1..n).filter(|&x| permutation.apply(x).abs_diff(permutation.apply(x - 1)) < 1000).count();
    // Of independent places, 2 % lie within 1,000 of each other.
    assert!(near < 4000, "{near}");
    let ascending = (1..n).filter(|&x| permutation.apply(x) > permutation.apply(x - 1)).count();
    assert!((40_000..60_000).contains(&ascending), "{ascending}");
}

#[test]
fn zipf_has_the_exact_frequencies() {
    const DRAWS: u64 = 400_000;
    for alpha in [0.0, 0.5, 0.99, 1.0, 1.2, 3.0] {
        let n = 50u64;
        let zipf = Zipf::new(n, alpha);
        let mut random = Xoshiro256PlusPlus::new(5);
        let mut counts = vec![0u64; n as usize];
        for _ in 0..DRAWS {
            counts[zipf.draw(&mut random) as usize] += 1;
        }
        let sum: f64 = (1..=n).map(|k| (k as f64).powf(-alpha)).sum();
        let (mut chi, mut cells) = (0.0, 0);
        for (rank, &count) in counts.iter().enumerate() {
            let expected = DRAWS as f64 * ((rank + 1) as f64).powf(-alpha) / sum;
            if expected >= 5.0 {
                chi += (count as f64 - expected).powi(2) / expected;
                cells += 1;
            }
        }
        // Chi-square with 49 degrees of freedom exceeds 100 with probability 2e-5; the seed is fixed.
        assert!(chi < 100.0, "alpha {alpha}: chi-square {chi} over {cells} cells");
    }
}

#[test]
fn zipf_of_one_key_and_of_very_many() {
    let mut random = Xoshiro256PlusPlus::new(5);
    let one = Zipf::new(1, 0.99);
    assert!((0..100).all(|_| one.draw(&mut random) == 0));
    let many = Zipf::new(1 << 40, 0.8);
    assert!((0..10_000).all(|_| many.draw(&mut random) < 1 << 40));
}

#[test]
fn values_compress_as_asked() {
    let pool = ValuePool::new(100, 0.5);
    let value = pool.values().next_value();
    assert_eq!(value.len(), 100);
    assert_eq!(value[..50], value[50..]);
    assert!(value.iter().all(|b| (b' '..b' ' + 95).contains(b)));
    let plain = ValuePool::new(100, 1.0);
    assert_ne!(plain.values().next_value()[..50], plain.values().next_value()[50..]);
}

#[test]
fn values_of_any_size_come_from_the_pool() {
    for size in [0, 1, 99, 100, 1 << 20, (1 << 20) + 1, 3 << 20] {
        let pool = ValuePool::new(size, 0.5);
        let mut values = pool.values();
        assert!((0..20).all(|_| values.next_value().len() == size), "size {size}");
    }
}

#[test]
fn threads_share_a_walk() {
    for (num, threads) in [(1u64, 1u64), (1, 3), (10, 1), (10, 3), (11, 4), (5, 7)] {
        for distribution in [Distribution::Sequential, Distribution::Unique(Permutation::new(num, 3))] {
            let mut seen = vec![0; num as usize];
            for thread in 0..threads {
                let mut stream = KeyStream::new(num, distribution.clone(), 1, thread).share(thread, threads);
                let share = num / threads + u64::from(thread < num % threads);
                (0..share).for_each(|_| seen[stream.next_key() as usize] += 1);
            }
            assert!(seen.iter().all(|count| *count == 1), "{num} keys, {threads} threads: {seen:?}");
        }
    }
}

#[test]
fn latest_is_zipf_over_ages() {
    let mut random = Xoshiro256PlusPlus::new(9);
    let mut latest = Latest::new(6, 0.99);
    assert!((0..100).all(|_| matches!(latest.draw(&mut random), Recent::Loaded(0..6))));
    (0..4).for_each(|_| latest.insert());
    const DRAWS: usize = 100_000;
    let mut ages = [0.0; 10];
    for _ in 0..DRAWS {
        match latest.draw(&mut random) {
            Recent::Inserted(number) => ages[3 - number as usize] += 1.0,
            Recent::Loaded(number) => ages[9 - number as usize] += 1.0,
        }
    }
    let sum: f64 = (1..=10).map(|age| f64::from(age).powf(-0.99)).sum();
    let chi = |(age, count): (usize, &f64)| {
        let expected = DRAWS as f64 * (age as f64 + 1.0).powf(-0.99) / sum;
        (count - expected).powi(2) / expected
    };
    let chi: f64 = ages.iter().enumerate().map(chi).sum();
    // Chi-square with 9 degrees of freedom exceeds 35 with probability 6e-5; the seed is fixed.
    assert!(chi < 35.0, "chi-square {chi}, {ages:?}");
}

#[test]
fn sizes_follow_their_laws() {
    let mean = |sizes: ValueSizes| {
        let mut random = Xoshiro256PlusPlus::new(4);
        let draws: Vec<usize> = (0..100_000).map(|_| sizes.draw(&mut random)).collect();
        assert!(draws.iter().all(|size| *size <= sizes.most()));
        draws.iter().sum::<usize>() as f64 / 1e5
    };
    assert_eq!(mean(ValueSizes::Fixed(100)), 100.0);
    assert!((mean(ValueSizes::Uniform(10, 30)) - 20.0).abs() < 0.1);
    assert_eq!(mean(ValueSizes::Uniform(7, 7)), 7.0);
    // The mean is scale / (1 - shape), and rounding up adds a half.
    let pareto = mean(ValueSizes::Pareto { scale: 25.45, shape: 0.2615, most: 1 << 20 });
    assert!((pareto - (25.45 / (1.0 - 0.2615) + 0.5)).abs() < 0.5, "{pareto}");
    let exponential = mean(ValueSizes::Pareto { scale: 50.0, shape: 0.0, most: 1 << 20 });
    assert!((exponential - 50.5).abs() < 0.6, "{exponential}");
    assert!(mean(ValueSizes::Pareto { scale: 50.0, shape: 0.0, most: 60 }) < 40.0, "cut");
}

#[test]
fn inserted_keys_are_none_of_the_loaded() {
    let coder = KeyCoder::new(18);
    let mut key = coder.buffer();
    coder.write_inserted(5, 1, &mut key);
    assert_eq!(key, b"\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x0100");
    coder.pad(&mut key);
    coder.write(5, &mut key);
    assert_eq!(key, b"\0\0\0\0\0\0\0\x050000000000");
}
