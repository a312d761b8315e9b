package load_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/load"
)

func TestSearch(t *testing.T) {
	for _, tt := range []struct {
		search load.Search
		limit  float64 // what is sustained
		tried  []float64
		best   float64
	}{
		{load.Search{Low: 10, Resolution: 0.5}, 100, []float64{10, 20, 40, 80, 160, math.Sqrt(80 * 160)}, 80},
		{load.Search{Low: 10, High: 50}, 100, []float64{10, 20, 40, 50}, 50},
		{load.Search{Low: 10}, 9, []float64{10}, 0},
		{load.Search{Low: 10, Points: 2}, 100, []float64{10, 20}, 20},
		{load.Search{Low: 1, Whole: true}, 11, []float64{1, 2, 4, 8, 16, 11, 13, 12}, 11},
		{load.Search{Low: 0.5, Whole: true}, 1, []float64{1, 2}, 1},
		{load.Search{Low: 3, High: 3}, 3, []float64{3}, 3},
	} {
		var tried []float64
		best, err := tt.search.Find(func(v float64) (bool, error) {
			tried = append(tried, v)
			return v <= tt.limit, nil
		})
		require.NoError(t, err)
		require.Equal(t, tt.best, best, "%+v", tt.search)
		require.Equal(t, tt.tried, tried, "%+v", tt.search)
	}
	// Narrow enough, within the points there are, whatever the limit is.
	for limit := 1.0; limit < 1e6; limit *= 1.37 {
		n := 0
		best, err := load.Search{Low: 1, Points: 40}.Find(func(v float64) (bool, error) {
			n++
			return v <= limit, nil
		})
		require.NoError(t, err)
		require.LessOrEqual(t, best, limit)
		require.GreaterOrEqual(t, best*1.05, limit)
		require.Less(t, n, 30)
	}
	_, err := load.Search{Low: 1}.Find(func(float64) (bool, error) { return false, errUnbuilt })
	require.ErrorIs(t, err, errUnbuilt)
}

func TestSearchThatMakesNoSense(t *testing.T) {
	for want, s := range map[string]load.Search{
		"load: the Low of a Search is 0, it must be above 0":                  {},
		"load: the Low of a Search is NaN, it must be above 0":                {Low: math.NaN()},
		"load: the High of a Search is 1, it must not be below its Low, 2":    {Low: 2, High: 1},
		"load: the High of a Search is +Inf, it must not be below its Low, 2": {Low: 2, High: math.Inf(1)},
		"load: the Resolution of a Search is -1, it must be above 0":          {Low: 2, Resolution: -1},
		"load: the Points of a Search are below 0":                            {Low: 2, Points: -1},
	} {
		_, err := s.Find(func(float64) (bool, error) { return false, errors.New("tried") })
		require.EqualError(t, err, want)
	}
}
