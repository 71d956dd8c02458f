# zero.gp - a logarithmic y axis with a place for zero: linear below `from`, a power of ten, and
# logarithmic above it, up to `high`. `from_words` are the format of its tics.
set nonlinear y via asinh(y / (0.4 * from)) inverse 0.4 * from * sinh(y)
set yrange [0:high * 1.8]
set ytics (sprintf(from_words, 0) 0)
do for [k = int(log10(from) - 0.5):6] {
    set ytics add (sprintf(from_words, 10.0**k) 10.0**k)
    do for [m = 2:9] { set ytics add ("" m * 10.0**k 1) }
}
