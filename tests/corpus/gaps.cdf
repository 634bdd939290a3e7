# seconds, share
0 0
1 0.5
3 1
