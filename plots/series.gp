# series.gp - looks of up to seven series, which differ in colour, mark and dashes; loaded after
# style.gp. look(s) is a linespoints style, line_look(s) the same without marks.
array colour[7] = [blue, vermillion, green, orange, purple, black, sky]
array mark[7] = [7, 5, 9, 11, 13, 2, 4]
array dash[7] = ["1", "(12, 4)", "(3, 3)", "(12, 4, 3, 4)", "(20, 5)", "(6, 2, 2, 2, 2, 2)", "(8, 3)"]
line_look(s) = sprintf("linewidth %g dashtype %s linecolor rgb '%s'", s == 1 ? 2.6 : 2.0, dash[s], colour[s])
look(s) = line_look(s).sprintf(" pointtype %d pointsize 1.3 * dot", mark[s])
