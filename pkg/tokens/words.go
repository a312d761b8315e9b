package tokens

// wordText holds every word piece of the vocabulary: 512 times a space and four lower-case letters, in alphabetical
// order. All are common English words that the widely used byte-pair vocabularies (GPT-2's and its successors', from which
// Qwen's and Llama 3's derive) also encode as one token, so a prompt made of them costs a real model about as many tokens
// as it costs here. Pieces are slices of this one string. The order decides the ids: replacing a word keeps all others
// only if it stays in its place, and any change alters the bytes the fake server sends.
const wordText = "" +
	" able acid acts adds also arch area arms arts auto away axis baby back bags ball" +
	" band bank bare bars base bath bean bear beat beds been beer best bias bike bill" +
	" bind bird blog blue boat body bold bone book boot born boss both bowl boys burn" +
	" cake call calm came camp card care cars cart case cash cast cell chat chef chip" +
	" city clip club coal code cold comb come cook cool copy cord core cost crew cute" +
	" dark data date days deal deck deep demo desk dial diet dish disk does dogs done" +
	" door down draw drop dual dust duty each earn ease east easy echo edge edit eggs" +
	" else ends even ever exam exit eyes face fact fail fair fall fans farm fast fear" +
	" feed feel feet fell felt file fill film find fine fire firm fish fits five flag" +
	" flat flow fold food foot form fort four free from fuel full fund gain game gate" +
	" gave gear gene gets gift girl give glad goal goes gold golf gone good grab grew" +
	" grid grow guys hair half hall hand hang hard have head hear heat held help hero" +
	" hide high hint hire hits hold hole home hope host hour huge icon idea inch into" +
	" iron item jobs join jump just keep kept keys kids kind king knew know lack lady" +
	" laid lake land last late laws lead leaf lean left legs lens less lets life lift" +
	" like line link list live load loan lock logo long look loop lose lost lots love" +
	" luck made mail main make male many maps mark mask mass mate math meal mean meat" +
	" meet menu mile milk mind mine miss mode mood more most move much must name near" +
	" neck need nest news next nice nine node none note okay once ones only onto open" +
	" oral over pace pack page paid pain pair park part pass past path pays peak pets" +
	" pick pink pipe plan play plot plus pool port pose post pour pull pump pure push" +
	" race rail rain rank rare rate read real rear rely rent rest rice rich ride ring" +
	" rise risk road rock role roll roof room root rose rows rule runs safe said sale" +
	" salt same sand save says scan seat seed seek seem seen sees self sell send sent" +
	" sets ship shop show side sign sing sink site size skin slot slow snap snow soft" +
	" soil sold solo some song soon sort soul span spin spot star stay stem step stop" +
	" such suit sure swap tags tail take tale talk tall tank tape task team tech tell" +
	" tend tent term test text than that them then they thin this thus tile till time" +
	" tiny tips told tone took tool tour town tree trim trip true tube turn type unit" +
	" upon used user uses vary verb very view vote wait wake walk wall want warm warn" +
	" wash wave ways wear week well went were west what when whom wide wife wild will" +
	" wind wins wire wish with wood word work wrap yard year yoga your zero zone zoom"

const (
	pieceLen  = 5                        // bytes of a word piece: the space and four letters
	wordCount = len(wordText) / pieceLen // 512
)

// Words returns the words of the vocabulary without their leading space, in the order of their ids. The slice is the
// caller's own.
func Words() []string {
	words := make([]string, wordCount)
	for k := range words {
		words[k] = wordPiece(k)[1:]
	}
	return words
}

// Word picks word n modulo the number of words and returns its token id and its piece, which is a space and four letters.
// Pieces joined in any order encode to exactly their ids, so a text of n picks is a text of n tokens.
func Word(n uint64) (id int, piece string) {
	k := int(n % uint64(wordCount))
	return wordBase + k, wordPiece(k)
}

func wordPiece(k int) string { return wordText[k*pieceLen : (k+1)*pieceLen] }

// wordIndex finds words by their four letters. Words are sorted, so those that share their first two letters are
// neighbours: first says where the run of each pair begins, and tail holds the last two letters as a pair code.
var wordIndex = newWordIndex()

type wordIndexTable struct {
	first [pairs + 1]uint16
	tail  [wordCount]uint16
}

func newWordIndex() *wordIndexTable {
	t := new(wordIndexTable)
	p := 0
	for k := range wordCount {
		w := wordPiece(k)
		head, _ := pairAt(w, 1)
		for ; p <= head; p++ {
			t.first[p] = uint16(k)
		}
		tail, _ := pairAt(w, 3)
		t.tail[k] = uint16(tail)
	}
	for ; p <= pairs; p++ {
		t.first[p] = uint16(wordCount)
	}
	return t
}

// find returns the number of the word made of the two pair codes, or -1.
func (t *wordIndexTable) find(head, tail int) int {
	for k := t.first[head]; k < t.first[head+1]; k++ {
		if int(t.tail[k]) == tail {
			return int(k)
		}
	}
	return -1
}
